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

// What belongs to the calling thread is being destroyed, by its end or by exit(), which does that before it destroys statics.
// Known of threads that have called note_thread_end(): those that run ops do.
extern constinit thread_local bool this_thread_ends;
void note_thread_end();

// The calling thread gives up, and asks back, its place among the workers of every engine whose op it is in.
void begin_blocking_everywhere();
void end_blocking_everywhere() noexcept;
class BlockingEverywhere {
 public:
  BlockingEverywhere() { begin_blocking_everywhere(); }
  ~BlockingEverywhere() { end_blocking_everywhere(); }
  BlockingEverywhere(const BlockingEverywhere&) = delete;
  BlockingEverywhere& operator=(const BlockingEverywhere&) = delete;
};

}  // namespace heddle::detail
