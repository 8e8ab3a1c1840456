// A captured graph, and one launch of it.
//
// A launch is an asynchronous op of the engine. Its ops run in one of two modes. Serial: one thread runs them in push
// order, which needs no counting, and is the fastest for ops too short to be worth a cache line's way to another
// core. Parallel: each op counts the ops that it waits for, and ready ops are in a list for all threads that help. A
// helper task is an op without vars, pushed on the engine: an idle worker runs it, and it runs ops of the launch. One that
// starts late finds nothing to do. ModeTuner measures which mode is better.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <source_location>
#include <vector>

#include <heddle/graph.h>

#include "base/spin_lock.h"
#include "op/op_node.h"

namespace heddle::detail {

struct Failure;

// What running an op takes when all is well, in push order.
struct GraphOp {
  void (*run)(void* closure, RunContext& context, OpNode* op);
  void* closure;
  const char* name;
  OpNode* node;  // as recorded: the access list is needed for errors alone
};

// Chooses the way to run the next launch by what the last ones took. One launch at a time uses it.
class ModeTuner {
 public:
  bool serial();
  void ended(bool was_serial, double wall, double busy);  // nanoseconds an op, busy: of all threads together

 private:
  static constexpr double kUnknown = -1;
  double serial_ = kUnknown, parallel_ = kUnknown;  // wall time of a launch of each kind
  double busy_ = kUnknown;
  std::uint32_t launches_ = 0;  // since the other way was tried
  std::uint32_t until_probe_ = 1;
};

struct GraphState {
  GraphState(EngineCore* of, const char* graph_name, std::source_location captured);
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  std::uint32_t size() const { return static_cast<std::uint32_t>(ops.size()); }

  EngineCore* const core;  // holds a reference
  const char* const name;
  const std::source_location where;
  std::vector<GraphOp> ops;
  std::vector<AccessNode> accesses;  // of a launch, as if granted; a reference on each var
  std::vector<std::uint32_t> next_ops,
      first_next;                     // op i is followed by next_ops[first_next[i] .. first_next[i + 1]]
  std::vector<std::uint32_t> before;  // how many ops each op follows
  bool async = false;                 // there are asynchronous ops
  bool chain = false;                 // no two ops can run at once
  std::vector<std::shared_ptr<SlotCell>> slots;
  std::vector<std::shared_ptr<const void>> values;  // of the slots, null if not set

  SpinLock lock;                 // guards:
  OpNode* last = nullptr;        // the launch entered last, if it has not ended
  std::uint64_t after_last = 0;  // the number in the serial order behind it

  // Of the launch that runs; there is only one at a time.
  ModeTuner mode_tuner;
  std::unique_ptr<std::atomic<std::uint32_t>[]> waiting;
  std::vector<std::uint32_t> ready;  // guarded by the launch's lock
};

// One launch. Tickets may outlive it, the graph need not be there any more then.
struct GraphRun {
  std::atomic<std::int64_t> refs{1};
  GraphState* graph = nullptr;
  EngineCore* core = nullptr;
  OpNode* op = nullptr;                   // the launch, as the engine sees it
  std::uint64_t first = 0;                // of the serial order's numbers that the ops have
  std::atomic<bool> check_errors{false};  // errors are about, or there are asynchronous ops
  bool serial = false;
  int most = 1;      // threads that may run ops of it at once
  double began = 0;  // nanoseconds
  std::atomic<std::uint64_t> busy{0};
  std::atomic<std::uint32_t> left{0};       // ops not ended
  std::unique_ptr<std::mt19937_64> random;  // fuzz: picks what runs next

  SpinLock lock;      // guards all below, and graph->ready
  bool open = false;  // ops are left
  int active = 0;     // threads in it
  int coming = 0;     // helper tasks that nobody has taken yet
};

void launch_graph(OpNode* op, GraphRun& run) noexcept;
void release(GraphRun* run) noexcept;

// An op that is being entered, numbered already. If it is a launch and nothing came between it and the graph's last one,
// which has not ended, then it takes over that one's vars when it ends, and needs not be queued on them: true.
bool join_launch(OpNode& op) noexcept;

}  // namespace heddle::detail
