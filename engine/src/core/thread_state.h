// The ops that the calling thread is in the middle of.
#pragma once

#include <cstdint>

namespace heddle::detail {

struct EngineCore;
struct OpNode;

struct ThreadState {
  EngineCore* core = nullptr;  // the engine of `op`
  OpNode* op = nullptr;        // the innermost op that the thread runs
  int worker = -1;
  const ThreadState* outer = nullptr;  // state of the op below this one on the stack; null: none
  const OpNode* graph_op = nullptr;    // if `op` is a launch: the op of its graph that runs
  // The op whose function runs. Its access list, name and line are those that the user wrote; `op` is what
  // the scheduler knows: the launch, if an op of a graph runs.
  const OpNode* function() const { return graph_op ? graph_op : op; }
};
extern constinit thread_local ThreadState this_thread_state;

// While an InsideOp lives, the calling thread runs `op`.
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

// Whether the thread_local objects of the calling thread are being destroyed: the thread ends or has called
// exit(), which destroys them before static objects. Set only for threads that have called note_thread_end(),
// as all threads that run ops do.
extern constinit thread_local bool this_thread_ends;
void note_thread_end();

// Releases, or acquires again, the calling thread's worker slot of every engine in whose op it is.
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
