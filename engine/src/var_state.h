// What is behind a Var: the queue of accesses that wait for it, and the error that poisons it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "spin_lock.h"
#include "submissions.h"

namespace heddle::detail {

struct EngineCore;
struct Failure;
class FenceSet;
struct OpNode;
struct VarState;

// One var of one op's access list. Lives in the op's memory.
struct AccessNode {
  OpNode* op;
  VarState* var;
  AccessNode* next;  // in the var's queue
  bool reads;        // the op sees the old value: an error there skips it
  bool mutates;
  bool granted;  // guarded by var->lock
};

// Two cache lines: threads that push use the first, threads that run ops the second.
struct alignas(64) VarState : QueueNode {
  explicit VarState(EngineCore* owner);
  ~VarState();

  EngineCore* const core;
  std::atomic<std::int64_t> refs{1};  // handles; ops that are queued need none, see drop_var()

  alignas(64) SpinLock lock;  // guards all below; nothing else is locked inside it
  bool writer_running = false;
  bool dropped = false;  // no handle is left: whoever makes it idle deletes it
  std::int32_t readers_running = 0;
  AccessNode* head = nullptr;  // accesses not granted yet, in push order
  AccessNode* tail = nullptr;
  std::shared_ptr<const Failure> poison;
  std::atomic<FenceSet*> fences{nullptr};  // of ops on streams: made for the first one; its own lock

  bool idle() const { return !writer_running && readers_running == 0 && head == nullptr; }
};

}  // namespace heddle::detail
