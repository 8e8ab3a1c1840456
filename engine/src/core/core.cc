#include "core/core.h"

#include <cstdio>
#include <cstdlib>

#include "stream/streams.h"

namespace heddle::detail {

EngineCore::EngineCore(const EngineOptions& engine_options)
    : options(engine_options),
      extra_for_all(engine_options.scheduler == Scheduler::fuzz),
      trace_number(trace::next_engine()),
      generation_(fork_generation()) {
  trace::start_from_environment();
}

void EngineCore::throw_closed() const {
  if (forked()) {
    throw Error(
        "this engine was made before fork(): its threads are in the parent process. default_engine() makes a "
        "new one here; arrays made before the fork can be read, not computed with");
  }
  throw Error("this engine has been shut down");
}

void EngineCore::shut_down() noexcept {
  if (forked()) return;
  if (const OpNode* op = current_function()) return shut_down_inside(*op);
  scheduler_->wait_all();
  open_.store(false, std::memory_order_relaxed);
  scheduler_->stop();
  if (observer_) observer_->stop();
  if (Streams* all = stream_ops.streams()) all->stop();
  errors.log_unseen();
}

void EngineCore::shut_down_inside(const OpNode& op) noexcept {
  if (!this_thread_ends) {
    std::fprintf(stderr,
                 "heddle: an engine is destroyed inside its own op '%s', pushed at %s:%u: it would wait for "
                 "that op, which waits for it; destroy it outside of its ops\n",
                 op.name, op.where.file_name(), static_cast<unsigned>(op.where.line()));
    std::abort();
  }
  // exit() was called inside the op: the process ends, the op never will. The reference keeps the core alive,
  // since other threads use the engine until then.
  errors.log_unseen();
  retain();
}

void EngineCore::release() noexcept {
  // In the child of a fork there are no threads to end; the core stays, with whatever they had locked.
  if (forked()) return;
  // acq_rel: the last holder of a reference sees what all others did to the core before it deletes it.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

OpNode* EngineCore::current_op() const {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core == this) return frame->op;
  }
  return nullptr;
}

OpNode* EngineCore::note_waiter(WaitState& state) const {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core != this) continue;
    if (!state.resumes) {
      state.resumes = frame->op;
    } else {
      state.beneath.push_back(frame->op);
    }
  }
  return state.resumes;
}

const OpNode* EngineCore::current_function() const {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core == this) return frame->function();
  }
  return nullptr;
}

}  // namespace heddle::detail
