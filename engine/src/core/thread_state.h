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
  const ThreadState* outer = nullptr;  // of the op on the stack below this one, if there is one
  const OpNode* graph_op = nullptr;    // of a launch: the op of its graph that runs
  // The op whose function runs. Its access list, name and line are those that the user wrote; `op` is what the scheduler
  // knows, which of a graph's op is the launch.
  const OpNode* function() const { return graph_op ? graph_op : op; }
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

// How often the calling thread has released its worker slot inside an op.
extern constinit thread_local std::uint32_t this_thread_blocked;

// The thread_local objects of the calling thread are being destroyed, since it ends or has called exit(), which does that before
// it destroys static objects. Only set for threads that have called note_thread_end(): those that run ops do.
extern constinit thread_local bool this_thread_ends;
void note_thread_end();

// The calling thread releases, and takes again, its worker slot of every engine in whose op it is.
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
