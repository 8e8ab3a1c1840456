// An op in flight, one block of memory: header (OpNode), access list, perhaps an OpExtra, closure.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>

#include <heddle/op_table.h>

#include "base/submission_queue.h"
#include "op/group.h"
#include "op/var_state.h"
#include "op/wait_state.h"
#include "trace/trace.h"

namespace heddle::detail {

struct GraphRun;
struct GraphState;
// Options of a push besides its vars.
struct PushOptions {
  std::shared_ptr<const GroupState> group;
  std::int32_t priority = 0;
  std::size_t bytes = 0;
};

// For the trace: what the push of an op in a bounded engine waited for.
struct BlockedPush {
  trace::Tick start, end;
  std::uint64_t released_by;  // the op whose end gave room, trace::kNone if it is not known
  std::uint32_t lane;         // trace lane of the pushing thread
};

// Fields of ops that are asynchronous, waits, launches, on a stream, or pushed with options.
struct OpExtra {
  EngineCore* core = nullptr;
  std::atomic<std::uint32_t> parts{2};    // how many of function and Completion have not ended
  bool dropped = false;                   // whether the Completion was destroyed unused
  std::exception_ptr thrown;              // exception out of the op's function
  std::exception_ptr reported;            // error passed to the Completion
  std::shared_ptr<WaitState> wait;        // set for OpKind::wait
  StreamLane* on = nullptr;               // stream on which the op is issued; null: it runs on the CPU
  trace::Tick started = 0;                // for the trace: when the op's function was called; 0: not recorded
  std::uint32_t lane = 0;                 // for the trace: the lane on which the function was called
  std::unique_ptr<BlockedPush> blocked;   // for the trace: the push's wait for room; null once the op runs
  std::uint64_t numbers = 1;              // how many sequence numbers the op takes: a launch one for each op
  GraphRun* launch = nullptr;             // set for an op of a graph: the launch that it runs in
  std::shared_ptr<struct Replay> replay;  // for an op of a graph: see core/replay.h
  GraphState* graph = nullptr;            // set for a launch: its graph
  bool issues = false;                    // set for a launch whose graph has ops on streams
  OpNode* then = nullptr;                 // set for a launch: the graph's next launch, which gets its vars
  OpNode* holder = nullptr;             // set for a launch that got its vars (hand_over()): the chain's first
  std::atomic<std::uint32_t> users{1};  // the op itself, and the launches whose holder it is
  PushOptions push_options;
};

// One cache line. `next` and `kind` are QueueNode's.
struct OpNode : QueueNode {
  OpNode() : QueueNode(OpKind::user) {}
  // kPrepared: a PreparedState*, with one reference, is in place of the closure. kAlone: see op_memory.h. kBrief:
  // Access::brief. kOfGraph: issued in a launch; in place of the closure is a pointer to the graph's. Not bit-fields:
  // initialising one reads its byte, which may be in the cache of the core that ran the last op here.
  static constexpr std::uint8_t kPrepared = 1, kAlone = 2, kBrief = 4, kOfGraph = 8;
  std::uint8_t flags = 0;
  static constexpr std::uint8_t kEpochOfEntry = 2;
  std::uint8_t epoch = 0;  // epoch of wait_all: 0 or 1, or kEpochOfEntry before the op is entered
  std::uint32_t access_count = 0;
  const OpTable* table = nullptr;
  const char* name = "op";
  std::source_location where;
  std::uint64_t sequence = 0;
  OpExtra* extra = nullptr;
  std::atomic<std::uint32_t> waiting{0};  // ungranted accesses, plus 1 while the op is being entered
  std::uint32_t closure_at = 0;           // offset of the closure from `this`

  AccessNode* accesses() { return reinterpret_cast<AccessNode*>(this + 1); }
  const AccessNode* accesses() const { return reinterpret_cast<const AccessNode*>(this + 1); }
  void* place() { return reinterpret_cast<std::byte*>(this) + closure_at; }
  // For the trace: the op whose end made this one ready. Stored in place of `next` of the first access, which
  // is not needed then, since all accesses are granted.
  void set_released_by(std::uint64_t by) { accesses()[0].released_by = by + 1; }
  std::uint64_t released_by() const {
    return access_count > 0 && accesses()[0].released_by ? accesses()[0].released_by - 1 : trace::kNone;
  }
  std::uint64_t numbers() const { return extra ? extra->numbers : 1; }
  const GroupState* group() const { return extra ? extra->push_options.group.get() : nullptr; }
  std::int32_t priority() const { return extra ? extra->push_options.priority : 0; }
  std::size_t bytes() const { return extra ? extra->push_options.bytes : 0; }
  bool immediate() const { return extra && table && table->immediate; }
  // Whether the op has no priority and is not immediate. Most ops have no OpExtra, which one load tells.
  bool plain() const { return !extra || (extra->push_options.priority == 0 && !immediate()); }
  WaitState* wait_state() const { return extra ? extra->wait.get() : nullptr; }
  OpNode* next_ready() const { return static_cast<OpNode*>(next.load(std::memory_order_relaxed)); }
  void set_next_ready(OpNode* op) { next.store(op, std::memory_order_relaxed); }
};
static_assert(sizeof(OpNode) == 64 && sizeof(AccessNode) % alignof(std::max_align_t) == 0);

inline trace::TraceOp traced(const OpNode& op, std::uint32_t engine) {
  return {op.name, op.where, engine, op.sequence, op.released_by()};
}

// An intrusive list of ops, first in, first out.
struct ReadyList {
  OpNode* head = nullptr;
  OpNode* tail = nullptr;
  std::size_t size = 0;
  bool empty() const { return head == nullptr; }
  void push_back(OpNode* op) {
    op->set_next_ready(nullptr);
    if (tail) {
      tail->set_next_ready(op);
    } else {
      head = op;
    }
    tail = op;
    ++size;
  }
  OpNode* pop_front() {
    OpNode* op = head;
    head = op->next_ready();
    if (!head) tail = nullptr;
    --size;
    return op;
  }
};

// A checked access list without repeats, and the closure that all its pushes share.
struct PreparedState {
  std::atomic<std::int64_t> refs{1};
  const OpTable* table = nullptr;
  void* closure = nullptr;
  EngineCore* core = nullptr;
  const char* name = "op";
  std::source_location where;
  std::unique_ptr<AccessNode[]> accesses;  // each holds a reference on its var
  std::uint32_t access_count = 0;
  bool has_push_options = false;  // whether each push needs an OpExtra with push_options
  PushOptions push_options;
};

// Memory for an op with so many accesses and a closure of so many bytes. `extra`: with an OpExtra.
OpNode* allocate_op(EngineCore* core, std::size_t accesses, std::size_t closure_bytes, bool extra);
void* closure_of(OpNode* op) noexcept;
void tell_skipped(OpNode* op, const Failure& why) noexcept;  // calls the closure's skipped(), if it has one
void destroy_closure(OpNode* op) noexcept;                   // for a prepared op: releases its state
void free_op(OpNode* op) noexcept;                           // call after destroy_closure()

}  // namespace heddle::detail
