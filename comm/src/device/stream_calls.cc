#include "device/stream_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/failure.h"
#include "tcp/call_watch.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;

// How often the calls under way are checked, and how often busy() is polled.
constexpr std::chrono::milliseconds kCheckInterval{5};
constexpr std::chrono::microseconds kPollInterval{20};

std::uint64_t hash_of(std::uint64_t history, std::uint64_t call) {
  return (history ^ call) * 0x9e3779b97f4a7c15ull;
}

}  // namespace

StreamCalls::StreamCalls(MeshTransport& control, CallNumbers& numbers, Recorder& recorder,
                         std::unique_ptr<DeviceRanks> ranks, Device device, int index,
                         std::chrono::milliseconds timeout)
    : control_(control),
      numbers_(numbers),
      recorder_(recorder),
      device_(device),
      index_(index),
      timeout_(timeout),
      ranks_(std::move(ranks)),
      thread_([this] { monitor(); }) {}

// The latest call is announced before the rank leaves, so that the others know in which calls it does not take part.
StreamCalls::~StreamCalls() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
  thread_.join();
  finish_ranks();
  if (latest_.sequence > 0) control_.announce_call(latest_);
}

// The other ranks, which do not leave, need not call finish() at the same time.
void StreamCalls::finish_ranks() noexcept {
  const std::lock_guard lock(ranks_mutex_);
  try {
    const auto deadline = Clock::now() + timeout_;
    if (control_.fault_state().failed() && !std::exchange(aborted_, true)) ranks_->abort();
    if (!aborted_) ranks_->finish();
    while (!aborted_ && ranks_->busy()) {
      check();
      if (Clock::now() > deadline) break;
      std::this_thread::sleep_for(kPollInterval);
    }
  } catch (...) {  // the destructor of ranks_ aborts
  }
  ranks_.reset();
}

void StreamCalls::check() const {
  if (control_.fault_state().failed()) control_.fault_state().raise();
}

void StreamCalls::begin(DeviceCall& call) {
  CallRecord& record = call.what.record;
  record.on_device = 1;
  numbers_.number(record);
  if (is_collective_call(record)) record.history = history_ = hash_of(history_, record.agreement);
  call.numbered = true;
  call.begun = Clock::now();
  call.entry = recorder_.begin(record);
}

void StreamCalls::issue(DeviceCall& call, Stream& stream) {
  begin(call);
  const CallRecord& record = call.what.record;
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(&call);
    if (is_collective_call(record)) latest_ = record;
  }
  wake_.notify_one();
  control_.begin_call(record);
  std::unique_lock lock(ranks_mutex_);
  check();
  try {
    start(*ranks_, call.what, control_.rank(), stream);
    while (ranks_->busy()) {
      lock.unlock();
      std::this_thread::sleep_for(kPollInterval);
      lock.lock();
      check();
    }
  } catch (...) {  // the other ranks, which wait for this one, are told of the error
    report_failure(record, " failed in ", std::current_exception());
    // An operation that has been started would run later, on memory that has been freed by then.
    if (!std::exchange(aborted_, true)) ranks_->abort();
    throw;
  }
}

void StreamCalls::report_failure(const CallRecord& call, const char* what, const std::exception_ptr& why) {
  if (control_.fault_state().failed()) return;
  control_.fault_state().fail(
      {Failure::Type::aborted, control_.rank(),
       rank_name(control_.rank()) + what + call.to_string() + ": " + message_of(why)});
}

std::exception_ptr StreamCalls::ended(DeviceCall& call, const std::exception_ptr& failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::erase(under_way_, &call);
  }
  std::exception_ptr error = failure;
  if (failure) report_failure(call.what.record, " failed in ", failure);
  // The stream cannot tell an aborted call from one that has run.
  if (!failure && control_.fault_state().failed()) {
    try {
      control_.fault_state().raise();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (std::exchange(call.numbered, false)) recorder_.end(call.entry, error != nullptr);
  return error;
}

void StreamCalls::lost(DeviceCall& call, const std::exception_ptr& why) noexcept {
  begin(call);
  report_failure(call.what.record, " has no data for ", why);
  recorder_.end(call.entry, true);
}

void StreamCalls::monitor() {
  std::unique_lock lock(mutex_);
  while (!leaving_) {
    if (under_way_.empty() && latest_.sequence == announced_latest_) {
      wake_.wait(lock);
      continue;
    }
    wake_.wait_for(lock, kCheckInterval);
    const bool any = !under_way_.empty();
    const CallRecord oldest = any ? under_way_.front()->what.record : CallRecord();
    const bool late = any && Clock::now() - under_way_.front()->begun > CallWatch::kAnnounceAfter;
    const CallRecord latest = latest_;
    lock.unlock();
    announce(late ? oldest : CallRecord(), latest);
    if (any) check_device(oldest);
    if (late) check_left_ranks(oldest);
    lock.lock();
  }
}

// Announces the call that this rank waits in, once; otherwise its latest call from time to time, so that calls that
// differed but had equal sizes are detected.
void StreamCalls::announce(const CallRecord& oldest, const CallRecord& latest) {
  const auto now = Clock::now();
  if (is_collective_call(oldest) && oldest.sequence != announced_oldest_) {
    announced_oldest_ = oldest.sequence;
    control_.announce_call(oldest);
  } else if (latest.sequence != announced_latest_ && now - announced_at_ > CallWatch::kAnnounceAfter) {
    announced_latest_ = latest.sequence;
    announced_at_ = now;
    control_.announce_call(latest);
  }
}

void StreamCalls::check_device(const CallRecord& oldest) {
  std::unique_lock lock(ranks_mutex_, std::try_to_lock);
  if (!lock || aborted_) return;  // the thread that holds the mutex checks the device itself
  try {
    ranks_->busy();
  } catch (...) {
    report_failure(oldest, " failed in ", std::current_exception());
  }
  if (!control_.fault_state().failed()) return;
  aborted_ = true;
  ranks_->abort();
}

// A rank that has left takes part in the calls up to its latest announced one, and in none after that. Sends and recvs
// are not announced, so they must end within the timeout.
void StreamCalls::check_left_ranks(const CallRecord& call) {
  const bool of_all = is_collective_call(call);
  bool left = false;
  int left_rank = -1;
  for (int rank = 0; rank < control_.size() && !left; ++rank) {
    if (!control_.fault_state().left(rank) || (!of_all && rank != call.root)) continue;
    left_rank = rank;
    left = !of_all || control_.latest_announced(rank) < call.sequence;
  }
  if (!left) return void(left_since_ = {});
  const auto now = Clock::now();
  if (left_since_ == Clock::time_point{}) left_since_ = now;
  if (!of_all && now - left_since_ < timeout_) return;
  control_.fault_state().fail({Failure::Type::lost, left_rank,
                               rank_name(left_rank) + " left the communicator while " +
                                   rank_name(control_.rank()) + " waited for it in " + call.to_string()});
}

}  // namespace heddle::comm_detail
