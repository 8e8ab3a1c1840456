// An op in flight: one block of memory that holds header, access list and closure.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>

#include <heddle/op.h>

#include "var_state.h"

namespace heddle::detail {

struct OpNode;

// What a blocked wait() and its op share.
struct WaitState {
  OpNode* resumes =
      nullptr;  // the op that waits, if any: it cannot end before; guarded by EngineCore::one_search
  std::atomic<std::uint32_t> done{0};
  std::shared_ptr<const Failure> poison;  // the var's, in push order; written before done
};

enum class OpKind : std::uint8_t {
  user,
  wait,   // signals a WaitState; run by whoever makes it ready
  clear,  // removes the poison of its var; likewise
};

struct OpNode {
  const OpTable* table = nullptr;
  void* closure = nullptr;  // inside this block, or the prepared op's
  EngineCore* core = nullptr;
  PreparedState* prepared = nullptr;  // one reference
  const char* name = "op";
  std::source_location where;
  std::uint64_t sequence = 0;
  OpNode* next = nullptr;     // in a ReadyList
  OpNode* resumes = nullptr;  // an op that cannot end before this one, which runs on top of it (fuzz)
  AccessNode* accesses = nullptr;
  std::uint32_t access_count = 0;
  std::atomic<std::uint32_t> waiting{0};  // accesses not granted, +1 while it is being queued
  std::atomic<std::uint32_t> parts{2};    // asynchronous: its function and its Completion, both have to end
  OpKind kind = OpKind::user;
  bool dropped = false;             // its Completion was destroyed unused
  std::uint8_t epoch = 0;           // of wait_all, at the push
  std::exception_ptr thrown;        // by the function
  std::exception_ptr reported;      // by the Completion
  std::shared_ptr<WaitState> wait;  // of OpKind::wait
};

// An intrusive list of ops, first in, first out.
struct ReadyList {
  OpNode* head = nullptr;
  OpNode* tail = nullptr;
  bool empty() const { return head == nullptr; }
  void push_back(OpNode* op) {
    op->next = nullptr;
    (tail ? tail->next : head) = op;
    tail = op;
  }
  void push_front(OpNode* op) {
    op->next = head;
    head = op;
    if (!tail) tail = op;
  }
  OpNode* pop_front() {
    OpNode* op = head;
    head = op->next;
    if (!head) tail = nullptr;
    return op;
  }
};

// A checked access list, sorted by address and without repeats, and the closure that all its pushes share.
struct PreparedState {
  std::atomic<std::int64_t> refs{1};
  const OpTable* table = nullptr;
  void* closure = nullptr;
  EngineCore* core = nullptr;
  const char* name = "op";
  std::source_location where;
  std::unique_ptr<AccessNode[]> accesses;  // each holds a reference on its var
  std::uint32_t access_count = 0;
};

// Memory for an op with that many accesses and a closure of that many bytes after them.
OpNode* allocate_op(std::size_t accesses, std::size_t closure_bytes);
void destroy_closure(OpNode* op) noexcept;  // or lets go of the prepared op
void free_op(OpNode* op) noexcept;          // after destroy_closure

}  // namespace heddle::detail
