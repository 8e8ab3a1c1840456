// The state behind a Var: the queue of accesses that wait for it, and the error that poisons it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/spin_lock.h"
#include "base/submission_queue.h"
#include "op/failure_ptr.h"

namespace heddle::detail {

struct EngineCore;
class FenceSet;
struct OpNode;
struct VarState;

// One var of one op's access list. Lives in the op's memory.
struct AccessNode {
  OpNode* op;
  VarState* var;
  union {
    AccessNode* next;           // next access in the var's queue
    std::uint64_t released_by;  // see OpNode::set_released_by
  };
  bool reads;  // true: the op sees the old value, and is skipped if the var is poisoned
  bool mutates;
  bool granted;               // whether op may use the var now; guarded by var->lock
  bool keeps_poison = false;  // true for a launch, whose graph's ops poison or clear the var themselves
};

// Two cache lines: threads that push use the first, threads that run ops the second.
struct alignas(64) VarState : QueueNode {
  explicit VarState(EngineCore* owner);
  ~VarState();

  EngineCore* const core;
  std::atomic<std::int64_t> refs{1};  // number of handles; queued ops need no reference, see delete_var()
  std::size_t number = 0;             // index in the engine's VarRegistry

  alignas(64) SpinLock lock;  // guards all below; only a FenceSet's lock is taken while it is held
  bool dropped = false;       // true: no handle is left; the op that makes the var idle deletes it
  std::int32_t readers_running = 0;
  const AccessNode* writer = nullptr;  // the granted mutation whose op has not ended
  AccessNode* head = nullptr;          // accesses not granted yet, in push order
  AccessNode* tail = nullptr;
  FailurePtr poison;
  // Fences of ops on streams, made for the first such op; the FenceSet has a lock of its own.
  std::atomic<FenceSet*> fences{nullptr};

  bool idle() const { return !writer && readers_running == 0 && head == nullptr; }
};

}  // namespace heddle::detail
