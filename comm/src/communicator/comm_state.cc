#include "communicator/comm_state.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <pthread.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/graph.h>
#include <heddle/usable_cores.h>

#include "communicator/call_tags.h"
#include "communicator/fusion.h"
#include "communicator/traced_name.h"
#include "core/failure.h"

namespace heddle::comm_detail {
namespace {

constexpr std::chrono::microseconds kSpin{50};

// Calls that somebody waits for at once are carried by who waits. After so many in a row the thread is not woken for those
// that are there when they are made, but looks every so often, as long as something happens, whether one is left to it.
// Where there is one core only, each look takes it away from who computes or carries, for 10 us.
constexpr int kTrust = 3;
constexpr std::chrono::microseconds kNap{200}, kNapOnOneCore{3000};
constexpr int kMostIdleNaps = 10;

thread_local const Call* being_pushed = nullptr;  // by this thread

std::atomic<int> process{0};

// getpid() asks the system each time, which takes as long as a small call.
int this_process() {
  static const bool told_of_forks = [] {
    process.store(getpid(), std::memory_order_relaxed);
    return pthread_atfork(nullptr, nullptr, [] { process.store(getpid(), std::memory_order_relaxed); }) == 0;
  }();
  return told_of_forks ? process.load(std::memory_order_relaxed) : getpid();
}

// The call takes part only to say why there are no data.
void fail_input(Call& call, const std::string& why) {
  call.what.record.failed = 1;
  call.what.failure = why;
  call.what.in = call.what.out = nullptr;
}

}  // namespace

struct PlaceCall {
  std::shared_ptr<CommState> state;
  std::shared_ptr<Call> call;
  bool launched;  // by a graph
  void operator()() const { state->place(call, launched); }
};

// It only says that the call may begin, which other ranks wait for: it waits for no worker.
struct StartCall {
  static constexpr bool immediate = true;
  std::shared_ptr<CommState> state;
  std::shared_ptr<Call> call;

  void operator()(RunContext&, Completion done) const {
    // Here, where the op is: the access checker wants to know who asks.
    Collective& what = call->what;
    what.record.failed = 0;
    if (call->in.defined()) what.in = call->in.data<const std::byte>();
    if (call->out.defined()) what.out = call->out.data<std::byte>();
    if (call->out.defined() && !call->in.defined()) what.in = what.out;
    call->completion.emplace(std::move(done));
    state->there(call);
  }

  // The other ranks must not wait for data that will never be.
  void skipped(const std::exception_ptr& why) const noexcept { state->skipped(call, message_of(why)); }
};

CommState::CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options)
    : engine_(&engine),
      backend_(std::move(backend)),
      options_(options),
      process_(this_process()),
      var_(engine.new_var()),
      order_(engine.new_var()),
      outcome_(engine.new_var()),
      destroyed_(std::make_exception_ptr(
          CommAborted("the communicator was destroyed before this call could begin"))),
      nap_(usable_cores().by_affinity == 1 ? kNapOnOneCore : kNap),
      thread_([this] { work(); }) {}

std::shared_ptr<CommState> CommState::make(Engine& engine, std::unique_ptr<Backend> backend,
                                           const BackendOptions& options) {
  std::shared_ptr<CommState> state(new CommState(engine, std::move(backend), options));
  engine.add_progress_source(state);
  return state;
}

CommState::~CommState() {
  if (thread_.joinable()) close();
  // Its parts would wait for threads that the child of a fork does not have.
  if (in_child()) (void)backend_.release();
}

bool CommState::in_child() const { return this_process() != process_; }

void CommState::check_process() const {
  if (!in_child()) return;
  throw CommError("a communicator belongs to the process that made it, not to its child");
}

// True if the call has its place: it needs no op to get it.
bool CommState::place_now(const std::shared_ptr<Call>& call) {
  const bool in_graph = is_capturing();
  std::lock_guard guard(mutex_);
  if (closing_) throw CommError("the communicator is being destroyed");
  captured_ |= in_graph;
  if (in_graph) return false;  // each launch is a call
  ++pushed_;
  if (captured_ || unplaced_ > 0) {
    ++unplaced_;
    return false;
  }
  calls_.push_back(call);
  return true;
}

Access CommState::access_of(const Collective& what, const NDArray& in, const NDArray& out,
                            const Var& result) {
  const auto spans = [](const NDArray& array) { return std::span(&array, array.defined() ? 1 : 0); };
  Access access = array_access(traced_name(what.record.kind, what.bytes()), spans(in), spans(out));
  if (!out.defined()) access.mutate.add(result);
  return access;
}

void CommState::push(Collective what, const NDArray& in, const NDArray& out, std::source_location where) {
  check_process();
  auto call = std::make_shared<Call>();
  call->what = std::move(what);
  CallTags::apply(&var_, call->what.record);
  if (in.defined()) call->in = in.detach();
  if (out.defined()) call->out = out.detach();
  call->result = out.defined() ? call->out.var() : outcome_;
  push(call, where);
}

void CommState::push(const std::shared_ptr<Call>& call, std::source_location where) {
  Access access = access_of(call->what, call->in, call->out, call->result);
  access.read.add(var_);
  StartCall start{shared_from_this(), call};
  const bool in_graph = is_capturing(), placed = place_now(call);
  bool to_be_placed = false;
  try {
    if (!placed) {
      engine_->push(PlaceCall{shared_from_this(), call, in_graph},
                    {.mutate = {order_}, .name = "collective_order", .priority = kMostPriority}, where);
      to_be_placed = true;
    }
    being_pushed = call.get();
    engine_->push_async(std::move(start), access, where);
    being_pushed = nullptr;
  } catch (...) {
    being_pushed = nullptr;
    if (!in_graph) forget(call, placed, to_be_placed);
    throw;
  }
}

// It was not pushed: nothing will ever say that it is there.
void CommState::forget(const std::shared_ptr<Call>& call, bool placed, bool to_be_placed) {
  std::lock_guard guard(mutex_);
  call->forgotten = true;
  std::erase(calls_, call);
  if (!placed && !to_be_placed) --unplaced_;
  ++ended_;
  call_ended();
}

void CommState::place(const std::shared_ptr<Call>& call, bool launched) {
  {
    std::lock_guard guard(mutex_);
    if (!launched) --unplaced_;
    if (gone_ || call->forgotten) return call_ended();
    calls_.push_back(call->instead ? std::move(call->instead) : call);
    if (launched) ++pushed_;
    if (next_is_there()) next_.notify_one();
  }
}

void CommState::there(const std::shared_ptr<Call>& call) {
  bool gone = false;
  {
    std::lock_guard guard(mutex_);
    gone = gone_;
    call->begun = true;
    call->there = !gone;
    if (call->abandoned) fail_input(*call, "the thread that made the call could not wait for it");
    if (!gone && next_is_there()) being_pushed == call.get() ? wake_unless_trusting() : next_.notify_one();
  }
  if (gone) refuse(*call);
}

// Its op has ended with that, and so may the launch of its graph: the next one has the call again, while this one may still
// be on its way. So what is on its way is another one.
void CommState::skipped(const std::shared_ptr<Call>& call, const std::string& why) {
  const auto instead = std::make_shared<Call>();
  instead->what = call->what;
  fail_input(*instead, why);
  instead->there = true;
  std::lock_guard guard(mutex_);
  if (gone_) return;
  const auto placed = std::find(calls_.begin(), calls_.end(), call);
  (placed == calls_.end() ? call->instead : *placed) = instead;
  if (next_is_there()) next_.notify_one();
}

void CommState::refuse(Call& call) const {
  if (auto completion = std::exchange(call.completion, std::nullopt)) completion->fail(destroyed_);
}

// Waking somebody who goes to sleep again at once costs more than a small call.
void CommState::call_ended() {
  if (waiting_ > 0) done_.notify_all();
  if (next_is_there()) wake_unless_trusting();
}

std::exception_ptr CommState::run(std::span<const std::shared_ptr<Call>> calls) {
  try {
    if (calls.size() > 1) {
      run_fused(calls, *backend_, fused_);
    } else {
      backend_->run(calls.front()->what);
    }
    return nullptr;
  } catch (...) {
    return failed_with(std::current_exception());
  }
}

// The error of a call that has thrown this.
std::exception_ptr CommState::failed_with(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RemoteFailure&) {
    return error;  // of this call only
  } catch (...) {
  }
  // Also what went wrong before the back end was asked: others wait for this rank.
  backend_->abort("rank " + std::to_string(backend_->rank()) + " failed: " + message_of(error));
  // One error, however many calls it ends: so whoever has seen it once has seen it.
  const std::lock_guard guard(mutex_);
  if (!broken_) broken_ = error;
  return broken_;
}

void CommState::complete(Call& call, const std::exception_ptr& error) {
  std::optional<Completion> completion = std::exchange(call.completion, std::nullopt);
  if (!completion) return;
  error ? completion->fail(error) : completion->done();
}

void CommState::carry(std::span<const std::shared_ptr<Call>> calls) {
  const std::exception_ptr error = run(calls);
  {
    std::lock_guard guard(mutex_);
    for (const std::shared_ptr<Call>& call : calls)
      call->there = false;  // a graph may push it again once it is done
    ended_ += calls.size();
    busy_ = false;
    together_ = std::max<std::size_t>(calls.back()->what.record.ahead, 1);
    call_ended();
  }
  for (const std::shared_ptr<Call>& call : calls) complete(*call, error);
}

bool CommState::next_is_there() const {
  if (calls_.empty()) return !busy_ && closing_ && (given_up_ || ended_ == pushed_);
  return !busy_ && (given_up_ || calls_.front()->there);
}

void CommState::wake_unless_trusting() {
  if (!napping_) next_.notify_one();
}

// True if the next call is there.
bool CommState::nap(std::unique_lock<std::mutex>& lock) {
  for (int idle = 0; by_waiters_ >= kTrust && idle < kMostIdleNaps; ++idle) {
    const int before = by_waiters_;
    napping_ = true;
    next_.wait_for(lock, nap_);
    napping_ = false;
    if (next_is_there()) return true;
    if (by_waiters_ != before) idle = 0;
  }
  return false;
}

// Waking up takes as long as many a call, so this looks for the next one for a while, but lets others have the core.
bool CommState::spin(std::unique_lock<std::mutex>& lock) {
  for (const auto end = std::chrono::steady_clock::now() + kSpin; std::chrono::steady_clock::now() < end;) {
    if (next_is_there()) return true;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  return next_is_there();
}

// Who is woken in vain, since somebody who waits was faster, asks anew whether to trust.
void CommState::await_next(std::unique_lock<std::mutex>& lock) {
  if (nap(lock) || spin(lock)) return;
  while (!next_is_there()) {
    next_.wait(lock);
    if (!next_is_there() && nap(lock)) return;
  }
}

void CommState::carry_next(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Call>> calls(
      std::make_move_iterator(calls_.begin()),
      std::make_move_iterator(calls_.begin() + static_cast<std::ptrdiff_t>(together_)));
  calls_.erase(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(together_));
  calls.back()->what.record.ahead = count_fusable(calls_, *backend_, options_.fusion);
  busy_ = true;
  lock.unlock();
  carry(calls);
  calls.clear();
  lock.lock();
}

// The next call is one that has to end before var can be there.
bool CommState::must_come_before(const Var& var) const {
  if (var == var_) return true;
  return std::any_of(calls_.rbegin(), calls_.rend(),
                     [&](const std::shared_ptr<Call>& call) { return call->there && call->result == var; });
}

// What others push meanwhile is not waited for, though it is for the same var.
void CommState::progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept {
  if (in_child()) return;
  std::unique_lock lock(mutex_);
  const std::uint64_t last = pushed_;
  const auto is_needed = [&] {
    return !over.load(std::memory_order_acquire) && ended_ < last && !calls_.empty() && next_is_there() &&
           !given_up_ && must_come_before(var);
  };
  if (is_needed()) ++by_waiters_;
  while (is_needed()) carry_next(lock);
}

void CommState::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    await_next(lock);
    if (given_up_ || calls_.empty()) break;
    by_waiters_ = 0;
    carry_next(lock);
  }
  gone_ = true;
  const auto left = std::exchange(calls_, {});
  std::vector<Call*> there;
  for (const std::shared_ptr<Call>& call : left) {
    if (std::exchange(call->there, false)) there.push_back(call.get());
  }
  if (waiting_ > 0) done_.notify_all();
  lock.unlock();
  for (Call* call : there) refuse(*call);
}

// False if there are other calls before, or may be: launches of graphs whose calls have no place yet.
bool CommState::take_turn() {
  const std::lock_guard guard(mutex_);
  if (closing_) throw CommError("the communicator is being destroyed");
  if (captured_ || busy_ || !calls_.empty() || unplaced_ > 0 || on_device_ > 0) return false;
  return busy_ = true;
}

void CommState::run_in_turn(Collective& what) {
  struct Turn {
    CommState& state;
    ~Turn() {
      std::lock_guard guard(state.mutex_);
      state.busy_ = false;
      state.call_ended();
    }
  } const turn{*this};
  try {
    backend_->run(what);
  } catch (...) {
    std::rethrow_exception(failed_with(std::current_exception()));
  }
}

// Behind other calls it is a call as they are, that is waited for: so this thread does what the engine has to do for them.
void CommState::run_now(Collective& what, std::source_location where) {
  check_process();
  if (is_capturing())
    throw Error("a collective that blocks, while this thread captures a graph: do it outside the capture");
  CallTags::apply(&var_, what.record);
  if (take_turn()) return run_in_turn(what);
  auto call = std::make_shared<Call>();
  call->what = what;
  call->result = engine_->new_var();
  push(call, where);
  try {
    engine_->wait(call->result);
  } catch (...) {
    abandon(*call);
    throw;
  }
}

// Its memory is its caller's again: what was not there does not begin any more, what has begun is waited for.
void CommState::abandon(Call& call) {
  std::unique_lock lock(mutex_);
  call.abandoned = !call.begun;
  ++waiting_;
  done_.wait(lock, [&] { return !call.there; });
  --waiting_;
}

void CommState::wait(std::source_location where) {
  check_process();
  engine_->push([] {}, {.mutate = {var_}, .name = "collectives_done"}, where);
  engine_->wait(var_);
  engine_->wait(outcome_);
}

namespace {

// Ends an op when it is told to, be that before or after the op runs.
class Farewell {
 public:
  void come(Completion op) {
    {
      const std::lock_guard guard(mutex_);
      if (!over_) {
        op_.emplace(std::move(op));
        return;
      }
    }
    op.done();
  }
  void end() {
    std::optional<Completion> op;
    {
      const std::lock_guard guard(mutex_);
      over_ = true;
      op.swap(op_);
    }
    if (op) op->done();
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::optional<Completion> op_;
  bool over_ = false;
};

struct AwaitFarewell {
  static constexpr bool immediate = true;
  std::shared_ptr<Farewell> farewell;
  void operator()(RunContext&, Completion done) const { farewell->come(std::move(done)); }
};

// Waits as ops are waited for: with some schedulers nobody else runs what the calls wait for. Returns when `farewell` has
// ended, or at once if the engine cannot wait here.
void help_until(Engine& engine, const std::shared_ptr<Farewell>& farewell) noexcept {
  if (is_capturing()) return;
  try {
    const Var over = engine.new_var();
    engine.push_async(AwaitFarewell{farewell}, {.mutate = {over}, .name = "communicator_ends"});
    engine.wait(over);
  } catch (...) {
    // inside an op that the calls wait for, or the engine is at its end: then others do the work, or nobody does
  }
}

}  // namespace

// Waits for the calls for so long, then ends them.
void CommState::end_calls_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  if (!done_.wait_until(lock, deadline, [this] { return all_done(); })) {
    given_up_ = true;
    lock.unlock();
    backend_->abort("rank " + std::to_string(backend_->rank()) +
                    " destroyed its communicator; what it had called before did not end in time");
    lock.lock();
    done_.wait(lock, [this] { return !busy_; });
  }
  --waiting_;
}

void CommState::close() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  bool done = false;
  {
    const std::lock_guard guard(mutex_);
    closing_ = true;
    done = all_done();
  }
  if (!done) {
    std::thread timer;
    const auto farewell = std::make_shared<Farewell>();
    try {
      timer = std::thread([this, deadline, farewell] {
        end_calls_until(deadline);
        farewell->end();
      });
      help_until(*engine_, farewell);
      timer.join();
    } catch (const std::system_error&) {  // no thread
      end_calls_until(deadline);
    }
  }
  backend_->leave_before(deadline);
  next_.notify_one();
  thread_.join();
}

}  // namespace heddle::comm_detail
