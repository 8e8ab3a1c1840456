#include "core/thread_state.h"

#include "core/core.h"

namespace heddle::detail {

constinit thread_local ThreadState this_thread_state;
constinit thread_local std::uint32_t this_thread_blocked = 0;
constinit thread_local bool this_thread_ends = false;

void note_thread_end() {
  struct AtEnd {
    ~AtEnd() { this_thread_ends = true; }
    bool made = false;
  };
  thread_local AtEnd at_end;
  at_end.made = true;
}

InsideOp::InsideOp(EngineCore* core, OpNode* op, int worker) : outer_(this_thread_state) {
  this_thread_state = {core, op, worker, outer_.core ? &outer_ : nullptr};
}
InsideOp::~InsideOp() { this_thread_state = outer_; }

void begin_blocking_everywhere() try {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core && !frame->core->forked()) frame->core->scheduler().begin_blocking();
  }
} catch (...) {
  end_blocking_everywhere();
  throw;
}

void end_blocking_everywhere() noexcept {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core && !frame->core->forked()) frame->core->scheduler().end_blocking();
  }
}

}  // namespace heddle::detail
