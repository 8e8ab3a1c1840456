#include "communicator/comm_state.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/var_use.h>

#include "communicator/call_tags.h"
#include "communicator/traced_name.h"
#include "core/failure.h"

namespace heddle::comm_detail {
namespace {

thread_local const Call* being_pushed = nullptr;  // the call that this thread is pushing

std::atomic<int> process{0};

// The id of this process. It is kept, since getpid() is a system call each time, which takes as long as a
// small collective.
int this_process() {
  static const bool told_of_forks = [] {
    process.store(getpid(), std::memory_order_relaxed);
    return pthread_atfork(nullptr, nullptr, [] { process.store(getpid(), std::memory_order_relaxed); }) == 0;
  }();
  return told_of_forks ? process.load(std::memory_order_relaxed) : getpid();
}

}  // namespace

// The op that enqueues a call which was not enqueued when it was made.
struct EnqueueCall {
  std::shared_ptr<CommState> state;
  std::shared_ptr<Call> call;
  bool launched;  // true: the op belongs to a graph, and each launch is a call
  void operator()() const { state->queue_.enqueue(call, launched); }
};

// The op of a call. It only marks the call as ready. It is immediate because the other ranks wait for the
// call: the op must not wait until a worker thread of this rank is free.
struct MarkCallReady {
  static constexpr bool immediate = true;
  std::shared_ptr<CommState> state;
  std::shared_ptr<Call> call;

  void operator()(RunContext&, Completion done) const {
    // The op, not the push, takes the arrays' addresses, since the access checker compares what an op
    // accesses with what it has declared.
    Collective& what = call->what;
    what.record.failed = 0;
    if (call->in.defined()) what.in = call->in.data<const std::byte>();
    if (call->out.defined()) what.out = call->out.data<std::byte>();
    if (call->out.defined() && !call->in.defined()) what.in = what.out;
    call->completion.emplace(std::move(done));
    const bool will_run = state->queue_.mark_ready(call, being_pushed == call.get());
    if (!will_run) state->progress_thread_.refuse(*call);
  }

  // Replaces the skipped call, since the other ranks would otherwise wait for data that never come.
  void skipped(const std::exception_ptr& why) const noexcept {
    state->queue_.replace_skipped(call, message_of(why));
  }
};

CommState::CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options)
    : backend_(std::move(backend)),
      options_(options),
      process_(this_process()),
      calls_var_(engine.new_var()),
      order_(engine.new_var()),
      outcome_(engine.new_var()),
      queue_(calls_var_, *backend_, options_.fusion),
      runner_(*backend_),
      progress_thread_(queue_, runner_, backend_->ranks_here()) {}

std::shared_ptr<CommState> CommState::make(Engine& engine, std::unique_ptr<Backend> backend,
                                           const BackendOptions& options) {
  std::shared_ptr<CommState> state(new CommState(engine, std::move(backend), options));
  engine.add_progress_source(state);
  return state;
}

CommState::~CommState() {
  if (!progress_thread_.joined()) close();
  // The back end's destructor would wait for threads that the child of a fork does not have.
  if (in_child()) (void)backend_.release();
}

bool CommState::in_child() const { return this_process() != process_; }

void CommState::check_process() const {
  if (!in_child()) return;
  throw CommError("a communicator belongs to the process that made it, not to its child");
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
  CallTags::apply(&calls_var_, call->what.record);
  if (in.defined()) call->in = in.detach();
  if (out.defined()) call->out = out.detach();
  call->result = out.defined() ? call->out.var() : outcome_;
  push(call, where);
}

void CommState::push(const std::shared_ptr<Call>& call, std::source_location where) {
  Access access = access_of(call->what, call->in, call->out, call->result);
  access.read.add(calls_var_);
  MarkCallReady mark_ready{shared_from_this(), call};
  const bool captured = is_capturing();
  bool enqueued = queue_.add(call, captured);
  try {
    if (!enqueued) {
      engine().push(EnqueueCall{shared_from_this(), call, captured},
                    {.mutate = {order_}, .name = "collective_order", .priority = kMostPriority}, where);
      enqueued = true;
    }
    being_pushed = call.get();
    engine().push_async(std::move(mark_ready), access, where);
    being_pushed = nullptr;
  } catch (...) {
    being_pushed = nullptr;
    if (!captured) queue_.cancel(call, enqueued);
    throw;
  }
}

Engine& CommState::engine() const {
  if (Engine* const engine = engine_of(order_).load()) return *engine;
  throw Error("the engine of the communicator is destroyed");
}

void CommState::progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept {
  if (!in_child()) progress_thread_.run_calls_for(var, over);
}

void CommState::run_directly(Collective& what) {
  struct EndDirectCall {
    CallQueue& queue;
    ~EndDirectCall() { queue.end_direct_call(); }
  } const end{queue_};
  runner_.run(what);
}

// If other calls have not ended, the call is pushed as an op and waited for, because a thread that waits runs
// ops that those calls need. Inside an op the call is always pushed, since other ops may need the worker slot
// meanwhile. There run_now() first waits for all earlier calls, since the engine does not know the order of
// calls, and would not detect that one of them waits for the op.
void CommState::run_now(Collective& what, std::source_location where) {
  check_process();
  if (is_capturing())
    throw Error("a collective that blocks, while this thread captures a graph: do it outside the capture");
  CallTags::apply(&calls_var_, what.record);
  const bool inside_op = check::running_op() != nullptr;
  if (!inside_op && queue_.begin_direct_call()) return run_directly(what);
  auto call = std::make_shared<Call>();
  call->what = what;
  call->result = engine().new_var();
  push(call, where);
  try {
    if (inside_op) wait_for_calls(where);
    engine().wait(call->result);
  } catch (...) {
    queue_.abandon(*call);
    throw;
  }
}

void CommState::wait_for_calls(std::source_location where) {
  engine().push([] {}, {.mutate = {calls_var_}, .name = "collectives_done"}, where);
  engine().wait(calls_var_);
}

void CommState::wait(std::source_location where) {
  check_process();
  wait_for_calls(where);
  engine().wait(outcome_);
}

namespace {

// An event that completes one op once it is set. The op may run before or after the event is set.
class OneShotEvent {
 public:
  void complete_when_set(Completion op) {
    {
      const std::lock_guard guard(mutex_);
      if (!set_) {
        op_.emplace(std::move(op));
        return;
      }
    }
    op.done();
  }
  void set() {
    std::optional<Completion> op;
    {
      const std::lock_guard guard(mutex_);
      set_ = true;
      op.swap(op_);
    }
    if (op) op->done();
  }

 private:
  // Guards the members below; no other mutex is locked and no op completed while it is held.
  std::mutex mutex_;
  std::optional<Completion> op_;
  bool set_ = false;
};

struct AwaitEvent {
  static constexpr bool immediate = true;
  std::shared_ptr<OneShotEvent> event;
  void operator()(RunContext&, Completion done) const { event->complete_when_set(std::move(done)); }
};

// Waits for the event as an op, since a thread that waits for an op runs other ops: with the scheduler fuzz no other
// thread may run those that calls wait for. Returns at once if the engine cannot wait here.
void run_ops_until(Engine& engine, const std::shared_ptr<OneShotEvent>& event) noexcept {
  if (is_capturing()) return;
  try {
    const Var over = engine.new_var();
    engine.push_async(AwaitEvent{event}, {.mutate = {over}, .name = "communicator_ends"});
    engine.wait(over);
  } catch (...) {
    // This thread is inside an op that the calls wait for, or the engine has ended. The calls end without the help of
    // this thread, or time out.
  }
}

}  // namespace

// Calls that have not ended by the deadline are aborted.
void CommState::end_calls_by(std::chrono::steady_clock::time_point deadline) {
  if (queue_.wait_for_all(deadline)) return;
  backend_->abort("rank " + std::to_string(backend_->rank()) +
                  " destroyed its communicator; what it had called before did not end in time");
  queue_.wait_for_running();
}

// A timer thread waits for the calls, while the calling thread runs ops of the engine.
void CommState::wait_in_close(std::chrono::steady_clock::time_point deadline) {
  const auto ended = std::make_shared<OneShotEvent>();
  try {
    std::thread timer([this, deadline, ended] {
      end_calls_by(deadline);
      ended->set();
    });
    if (Engine* const engine = engine_of(order_).load()) run_ops_until(*engine, ended);
    timer.join();
  } catch (const std::system_error&) {  // no thread could be started
    end_calls_by(deadline);
  }
}

void CommState::close() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  if (!queue_.close()) wait_in_close(deadline);
  backend_->leave_before(deadline);
  progress_thread_.join();
}

}  // namespace heddle::comm_detail
