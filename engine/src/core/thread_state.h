// The ops that the calling thread is in the middle of.
#pragma once

#include <cstdint>

namespace heddle::detail {

struct EngineCore;
struct OpNode;

// What the calling thread is doing.
struct ThreadState {
  EngineCore* core = nullptr;  // of the op it runs
  OpNode* op = nullptr;        // innermost
  int worker = -1;
  const ThreadState* outer =
      nullptr;  // an op below it: of another engine, or of the same under naive and fuzz
};
extern constinit thread_local ThreadState this_thread_state;

// While one lives, the calling thread runs `op`.
class InsideOp {
 public:
  InsideOp(EngineCore* core, OpNode* op, int worker);
  ~InsideOp();
  InsideOp(const InsideOp&) = delete;
  InsideOp& operator=(const InsideOp&) = delete;

 private:
  ThreadState outer_;
};

// How often the calling thread has given up its place: whoever runs one op after the other asks for it anew then.
extern constinit thread_local std::uint32_t this_thread_blocked;

// The calling thread gives up, and asks back, its place among the workers of every engine whose op it is in.
void begin_blocking_everywhere();
void end_blocking_everywhere() noexcept;

}  // namespace heddle::detail
