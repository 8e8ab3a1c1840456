#include "comm_state.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <pthread.h>
#include <unistd.h>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/graph.h>

#include "traced_name.h"

namespace heddle::detail {
namespace {

constexpr std::chrono::microseconds kSpin{50};

std::atomic<int> process{0};

// getpid() asks the system each time, which takes as long as a small call.
int this_process() {
  static const bool told_of_forks = [] {
    process.store(getpid(), std::memory_order_relaxed);
    return pthread_atfork(nullptr, nullptr, [] { process.store(getpid(), std::memory_order_relaxed); }) == 0;
  }();
  return told_of_forks ? process.load(std::memory_order_relaxed) : getpid();
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

std::exception_ptr destroyed() {
  return std::make_exception_ptr(CommAborted("the communicator was destroyed before this call could begin"));
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
    if (!call->in.defined()) what.in = what.out;
    call->completion.emplace(std::move(done));
    state->there(call);
  }

  // The other ranks must not wait for data that will never be.
  void skipped(const std::exception_ptr& why) const noexcept {
    call->what.record.failed = 1;
    call->what.failure = message_of(why);
    state->there(call);
  }
};

CommState::CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options)
    : engine_(&engine),
      backend_(std::move(backend)),
      options_(options),
      process_(this_process()),
      var_(engine.new_var()),
      order_(engine.new_var()),
      outcome_(engine.new_var()),
      thread_([this] { work(); }) {}

CommState::~CommState() {
  if (thread_.joinable()) close();
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

void CommState::push(Collective what, const NDArray& in, const NDArray& out, std::source_location where) {
  check_process();
  auto call = std::make_shared<Call>();
  call->what = std::move(what);
  if (in.defined()) call->in = in.detach();
  if (out.defined()) call->out = out.detach();
  const auto spans = [](const NDArray& array) { return std::span(&array, array.defined() ? 1 : 0); };
  Access access =
      array_access(traced_name(call->what.record.kind, call->what.bytes()), spans(in), spans(out));
  access.read.add(var_);
  if (!out.defined()) access.mutate.add(outcome_);
  StartCall start{shared_from_this(), call};
  const bool in_graph = is_capturing(), placed = place_now(call);
  bool to_be_placed = false;
  try {
    if (!placed) {
      engine_->push(PlaceCall{shared_from_this(), call, in_graph},
                    {.mutate = {order_}, .name = "collective_order", .priority = kMostPriority}, where);
      to_be_placed = true;
    }
    engine_->push_async(std::move(start), access, where);
  } catch (...) {
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
    if (gone_ || call->forgotten) return;
    calls_.push_back(call);
    if (launched) ++pushed_;
    if (!next_is_there()) return;
  }
  next_.notify_one();
}

void CommState::there(const std::shared_ptr<Call>& call) {
  bool gone = false;
  {
    std::lock_guard guard(mutex_);
    gone = gone_;
    call->there = !gone;
    if (!gone && !next_is_there()) return;
  }
  gone ? refuse(*call) : next_.notify_one();
}

void CommState::refuse(Call& call) {
  if (auto completion = std::exchange(call.completion, std::nullopt)) completion->fail(destroyed());
}

// Waking somebody who goes to sleep again at once costs more than a small call.
void CommState::call_ended() {
  if (waiting_ > 0) done_.notify_all();
  if (next_is_there()) next_.notify_one();
}

void CommState::carry(Call& call) {
  std::exception_ptr error;
  try {
    backend_->run(call.what);
  } catch (...) {
    error = std::current_exception();
  }
  std::optional<Completion> completion = std::exchange(call.completion, std::nullopt);
  {
    std::lock_guard guard(mutex_);
    call.there = false;  // a graph may push it again from the moment it is done
    ++ended_;
    busy_ = false;
    call_ended();
  }
  if (!completion) return;
  error ? completion->fail(std::move(error)) : completion->done();
}

bool CommState::next_is_there() const {
  if (calls_.empty()) return !busy_ && closing_ && (given_up_ || ended_ == pushed_);
  return !busy_ && (given_up_ || calls_.front()->there);
}

// Waking up takes as long as many a call, so this looks for the next one for a while, but lets others have the core.
void CommState::await_next(std::unique_lock<std::mutex>& lock) {
  for (const auto end = std::chrono::steady_clock::now() + kSpin; std::chrono::steady_clock::now() < end;) {
    if (next_is_there()) return;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  next_.wait(lock, [this] { return next_is_there(); });
}

void CommState::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    await_next(lock);
    if (given_up_ || calls_.empty()) break;
    std::shared_ptr<Call> call = std::move(calls_.front());
    calls_.pop_front();
    busy_ = true;
    lock.unlock();
    carry(*call);
    call.reset();
    lock.lock();
  }
  gone_ = true;
  const auto left = std::exchange(calls_, {});
  std::vector<Call*> there;
  for (const std::shared_ptr<Call>& call : left) {
    if (call->there) there.push_back(call.get());
  }
  lock.unlock();
  for (Call* call : there) refuse(*call);
}

void CommState::run_now(Collective& what) {
  check_process();
  {
    std::unique_lock lock(mutex_);
    if (closing_) throw CommError("the communicator is being destroyed");
    if (!can_run_now()) {
      ++waiting_;
      done_.wait(lock, [this] { return can_run_now(); });
      --waiting_;
    }
    busy_ = true;
  }
  struct Turn {
    CommState& state;
    ~Turn() {
      std::lock_guard guard(state.mutex_);
      state.busy_ = false;
      state.call_ended();
    }
  } const turn{*this};
  backend_->run(what);
}

void CommState::wait() {
  check_process();
  engine_->push([] {}, {.mutate = {var_}, .name = "collectives_done"});
  engine_->wait(var_);
  engine_->wait(outcome_);
}

void CommState::close() noexcept {
  const auto all_done = [this] { return ended_ == pushed_ && !busy_; };
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    ++waiting_;
    if (!done_.wait_for(lock, options_.timeout, all_done)) {
      lock.unlock();
      backend_->abort("rank " + std::to_string(backend_->rank()) +
                      " destroyed its communicator; what it had called before did not end in time");
      lock.lock();
      given_up_ = !done_.wait_for(lock, options_.timeout, all_done);
    }
  }
  next_.notify_one();
  thread_.join();
}

}  // namespace heddle::detail
