#include "trace/trace_recorder.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <system_error>

#include <heddle/error.h>

#include "trace/trace.h"

namespace heddle::trace {
namespace {

// Writing a record as text takes longer than recording it. So that it does not slow down a machine without an
// idle core, the writer uses two hundredths of a core until the records' memory is half full.
constexpr auto kWriteEvery = std::chrono::milliseconds(50), kWriteFor = std::chrono::milliseconds(1);

constinit std::atomic<Recorder*> current{nullptr};
// In the child of a fork: the parent's recorder, which the child's own recorder keeps.
constinit Recorder* of_parent = nullptr;

// Allocates nothing, because in a child that only calls exec() the allocator may be in any state.
void in_child() {
  forget_thread_after_fork();
  if (Recorder* recorder = current.exchange(nullptr)) of_parent = recorder;
}

[[maybe_unused]] const bool registered = [] {
  pthread_atfork(nullptr, nullptr, in_child);
  return true;
}();

// Gives the writer the lowest priority: on a machine without an idle core records stay in memory.
void lower_priority() noexcept {
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_IDLE, &parameters);
}

std::uint64_t unix_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

// The recorder is never destroyed, since threads may outlive all statics.
Recorder& the_recorder() noexcept {
  Recorder* found = current.load(std::memory_order_acquire);
  if (found) return *found;
  auto made = std::make_unique<Recorder>(of_parent);
  if (current.compare_exchange_strong(found, made.get())) found = made.release();
  return *found;
}

ThreadBuffer* Recorder::make_buffer() noexcept {
  Chunk* chunk = pool_.take();
  if (!chunk) return nullptr;
  try {
    auto made = std::make_unique<ThreadBuffer>(pool_, chunk);
    std::lock_guard guard(buffers_mutex_);
    buffers_.push_back(std::move(made));
    return buffers_.back().get();
  } catch (const std::bad_alloc&) {
    pool_.give(chunk);
    return nullptr;
  }
}

// Writes the record, unless it belongs to an earlier trace: there is no session, or it is older than the
// session's first tick.
void Recorder::use(const Record& record) {
  if (!session_ || record.start < session_->clock.first_tick()) return;
  session_->file.add(record, session_->clock);
  ++(session_->file.open() ? session_->records : session_->dropped);
}

// Takes up to a chunk of the buffer's records. False if none of them was made before `until`.
bool Recorder::take_from(ThreadBuffer& buffer, Tick until) {
  bool any = false;
  // take() also returns true if there is another chunk, although all records of this chunk were taken before.
  any |= buffer.take([&](const Record& record) {
    any |= record.start <= until || record.start == kNone;
    use(record);
  });
  const std::uint64_t dropped = buffer.take_dropped();
  if (session_) session_->dropped += dropped;
  return any;
}

// Takes up to a chunk of every thread's records. False if none was made before `until`.
bool Recorder::take_round(Tick until) {
  std::vector<ThreadBuffer*> all, finished;
  {
    std::lock_guard guard(buffers_mutex_);
    for (const auto& one : buffers_) all.push_back(one.get());
  }
  bool any = false;
  for (ThreadBuffer* one : all) {
    const bool ended = one->ended();  // read before the records are taken, so that none is missed
    any |= take_from(*one, until);
    if (ended && one->empty()) finished.push_back(one);
  }
  if (!finished.empty()) forget(finished);
  return any;
}

void Recorder::forget(const std::vector<ThreadBuffer*>& finished) {
  std::lock_guard guard(buffers_mutex_);
  std::erase_if(buffers_, [&](const auto& one) {
    if (std::find(finished.begin(), finished.end(), one.get()) == finished.end()) return false;
    pool_.give(one->last_chunk());
    return true;
  });
}

// Takes all records that were made before `until`. The number of rounds is bounded, whatever threads record meanwhile.
void Recorder::take_all(Tick until) {
  for (std::size_t rounds = pool_.chunks() + 1; rounds > 0 && take_round(until); --rounds) {
  }
}

bool Recorder::stopped_within_a_while() {
  std::unique_lock lock(wake_mutex_);
  return wake_.wait_for(lock, kWriteEvery, [this] { return stopping_; });
}

// Holds write_mutex_ for one round at a time, so that stop(), on a thread of higher priority, can write the
// rest.
void Recorder::write_until_stopped() {
  lower_priority();
  while (!stopped_within_a_while()) {
    const auto until = std::chrono::steady_clock::now() + kWriteFor;
    for (bool any = true; any && (pool_.is_half_full() || std::chrono::steady_clock::now() < until);) {
      std::lock_guard guard(write_mutex_);
      session_->clock.calibrate();
      any = take_round(kNone);
      if (!any) session_->file.flush();
      if (!session_->file.open()) recording.store(false, std::memory_order_relaxed);
      std::lock_guard wake(wake_mutex_);
      if (stopping_) return;
    }
  }
}

// The writer thread blocks all signals, since they are meant for the program's own threads.
void Recorder::start_writer() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    stopping_ = false;
    writer_ = std::thread([this] { write_until_stopped(); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    session_.reset();
    throw Error(std::string("trace: cannot start a thread: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Recorder::stop_writer() {
  {
    std::lock_guard guard(wake_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  writer_.join();
}

void Recorder::start(const std::string& path, const TraceOptions& options) {
  std::lock_guard control(control_mutex_);
  std::lock_guard guard(write_mutex_);
  if (session_) throw Error("trace: a trace is being written already, to " + session_->file.path());
  counter_is_steady.store(find_steady_counter(), std::memory_order_relaxed);
  pool_.set_limit(options.memory);
  take_all(kNone);
  dropped_.store(0, std::memory_order_relaxed);
  session_.emplace(path, options.file);
  session_->file.begin(unix_nanoseconds());
  start_writer();
  running_.store(true, std::memory_order_relaxed);
  recording.store(true, std::memory_order_relaxed);
}

TraceSummary Recorder::stop() {
  std::lock_guard control(control_mutex_);
  recording.store(false, std::memory_order_relaxed);
  if (!running_.exchange(false)) return {};
  stop_writer();
  std::lock_guard guard(write_mutex_);
  Session& session = *session_;
  session.clock.calibrate();
  take_all(kNone);
  session.dropped += dropped_.exchange(0, std::memory_order_relaxed);
  session.file.end(session.records, session.dropped);
  TraceSummary summary{session.file.path(), session.records, session.dropped, session.file.bytes(),
                       session.file.error()};
  session_.reset();
  pool_.trim();
  return summary;
}

void Recorder::flush() {
  const Tick until = now();
  std::lock_guard guard(write_mutex_);
  if (!session_) return;
  session_->clock.calibrate();
  take_all(until);
  session_->file.flush();
}

}  // namespace heddle::trace
