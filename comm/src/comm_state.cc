#include "comm_state.h"

#include <exception>
#include <unistd.h>

#include <heddle/array_op.h>

namespace heddle::detail {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

struct PlaceCall {
  std::shared_ptr<CommState> state;
  std::shared_ptr<Call> call;
  void operator()() const { state->place(call); }
};

struct StartCall {
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
      process_(getpid()),
      order_(engine.new_var()),
      users_(engine.new_var()),
      outcome_(engine.new_var()),
      thread_([this] { work(); }) {}

CommState::~CommState() {
  if (thread_.joinable()) close();
}

void CommState::check_process() const {
  if (getpid() == process_) return;
  throw CommError("a communicator belongs to the process that made it, not to its child");
}

void CommState::push(Collective what, const NDArray& in, const NDArray& out, std::source_location where) {
  check_process();
  const bool nothing_to_mutate = !out.defined();
  auto call = std::make_shared<Call>();
  call->what = std::move(what);
  if (in.defined()) call->in = in.detach();
  if (out.defined()) call->out = out.detach();
  {
    std::lock_guard guard(mutex_);
    if (closing_) throw CommError("the communicator is being destroyed");
    ++pushed_;
    ++unplaced_;
  }
  const auto spans = [](const NDArray& array) { return std::span(&array, array.defined() ? 1 : 0); };
  Access access = array_access(name_of(call->what.record.kind), spans(in), spans(out));
  access.read.add(users_);
  if (nothing_to_mutate) access.mutate.add(outcome_);
  engine_->push(PlaceCall{shared_from_this(), call}, {.mutate = {order_}, .name = "collective_order"}, where);
  engine_->push_async(StartCall{shared_from_this(), call}, access, where);
}

void CommState::place(const std::shared_ptr<Call>& call) {
  {
    std::lock_guard guard(mutex_);
    calls_.push_back(call);
    call->placed = true;
    --unplaced_;
  }
  news_.notify_all();
}

void CommState::there(const std::shared_ptr<Call>& call) {
  {
    std::lock_guard guard(mutex_);
    call->there = true;
  }
  news_.notify_all();
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
    call.there = call.placed = false;  // a graph may push it again from the moment it is done
    ++ended_;
    busy_ = false;
  }
  news_.notify_all();
  if (!completion) return;
  error ? completion->fail(std::move(error)) : completion->done();
}

void CommState::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] {
      return !busy_ && (calls_.empty() ? closing_ && ended_ == pushed_ : calls_.front()->there);
    });
    if (calls_.empty()) return;
    const std::shared_ptr<Call> call = std::move(calls_.front());
    calls_.pop_front();
    busy_ = true;
    lock.unlock();
    carry(*call);
    lock.lock();
  }
}

void CommState::run_now(Collective& what) {
  check_process();
  {
    std::unique_lock lock(mutex_);
    if (closing_) throw CommError("the communicator is being destroyed");
    news_.wait(lock, [this] { return !busy_ && calls_.empty() && unplaced_ == 0; });
    busy_ = true;
  }
  struct Turn {
    CommState& state;
    ~Turn() {
      {
        std::lock_guard guard(state.mutex_);
        state.busy_ = false;
      }
      state.news_.notify_all();
    }
  } const turn{*this};
  backend_->run(what);
}

void CommState::wait() {
  check_process();
  engine_->push([] {}, {.mutate = {users_}, .name = "collectives_done"});
  engine_->wait(users_);
  engine_->wait(outcome_);
}

void CommState::close() noexcept {
  if (getpid() != process_) {  // there is no such thread here
    thread_.detach();
    return;
  }
  const auto all_done = [this] { return ended_ == pushed_ && !busy_; };
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    if (!news_.wait_for(lock, options_.timeout, all_done)) {
      lock.unlock();
      backend_->abort("rank " + std::to_string(backend_->rank()) +
                      " destroyed its communicator; what it had called before did not end in time");
      lock.lock();
      news_.wait_for(lock, options_.timeout, all_done);
      pushed_ = ended_;  // ops that never began; they find the communicator closed
    }
  }
  news_.notify_all();
  thread_.join();
}

}  // namespace heddle::detail
