// What is behind a Var: the queue of accesses that wait for it, and the error that poisons it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "spin_lock.h"

namespace heddle::detail {

struct EngineCore;
struct Failure;
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

// Locks are taken in address order when an op holds several (see tracker.h); nothing else is locked inside one.
struct alignas(64) VarState {
  explicit VarState(EngineCore* owner);
  ~VarState();

  SpinLock lock;  // guards everything below but refs and core
  bool writer_running = false;
  std::int32_t readers_running = 0;
  AccessNode* head = nullptr;  // accesses not granted yet, in push order
  AccessNode* tail = nullptr;
  std::shared_ptr<const Failure> poison;

  std::atomic<std::int64_t> refs{1};  // handles, and one while an op is queued or running
  EngineCore* const core;

  bool idle() const { return !writer_running && readers_running == 0 && head == nullptr; }
};

}  // namespace heddle::detail
