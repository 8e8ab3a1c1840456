// A captured graph, and one launch of it.
//
// A launch is an asynchronous op of the engine. The ops of its graph that are on streams are issued, each as an OpNode
// with kOfGraph, since a later launch may issue the same op of the graph before the work of this one is done. A launch
// with such ops ends in two steps, as an op on a stream does: it releases its vars when all its ops are issued or have
// completed, and ends when all the work is done.
//
// The ops run in one of two modes. Serial: one thread runs them in push order, which needs no counting, and is the
// fastest for ops too short to be worth a cache line's way to another core. Parallel: each op counts the ops that it
// waits for, and ready ops are in a list for all threads that help. A helper task is an op without vars, pushed on the
// engine: a worker that runs it runs ops of the launch, if any are left. ModeTuner measures which mode is better. An op
// on the CPU that has to wait for work on streams is deferred. In serial mode the ops behind it wait too.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <vector>

#include <heddle/graph.h>
#include <heddle/launch_memory.h>

#include "base/spin_lock.h"
#include "op/op_node.h"

namespace heddle::detail {

// What is needed to run an op of a graph while there are no errors.
struct GraphOp {
  void (*run)(void* closure, RunContext& context, OpNode* op);
  void* closure;
  const char* name;
  OpNode* node;  // the recorded op: its access list is needed for errors only
};

// Chooses the mode of the next launch by how long the last ones took. One launch at a time uses it.
class ModeTuner {
 public:
  bool serial();
  // `wall` and `busy` in nanoseconds per op. `busy` is the sum over all threads.
  void completed(bool was_serial, double wall, double busy);

 private:
  static constexpr double kUnknown = -1;
  double serial_ = kUnknown, parallel_ = kUnknown;  // nanoseconds per op of a launch in each mode
  double busy_ = kUnknown;
  std::uint32_t launches_ = 0;     // number of launches since the slower mode was last tried
  std::uint32_t until_probe_ = 1;  // number of launches after which the slower mode is tried again
};

// Memory of the graph, and how many ops of a launch are the last that use it.
struct UsedMemory {
  UsedMemory(std::shared_ptr<LaunchMemory> of, std::uint32_t ops)
      : memory(std::move(of)), users(ops), left(ops) {}
  const std::shared_ptr<LaunchMemory> memory;
  const std::uint32_t users;
  std::atomic<std::uint32_t> left;  // of these ops, how many are not done in the launch that runs
};

struct Segments;

struct GraphState {
  GraphState(EngineCore* of, const char* graph_name, std::source_location captured);
  ~GraphState();
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  std::uint32_t size() const { return static_cast<std::uint32_t>(ops.size()); }

  EngineCore* const core;  // the graph holds a reference on the core
  const char* const name;
  const std::source_location where;
  std::vector<GraphOp> ops;
  // The accesses that each launch copies into its op. Each holds a reference on its var.
  std::vector<AccessNode> accesses;
  // Op i is followed by the ops next_ops[first_next[i] .. first_next[i + 1]].
  std::vector<std::uint32_t> next_ops, first_next;
  // Op i is one of the last ops that use memories[ended[first_ended[i] .. first_ended[i + 1]]]. Empty without memories.
  std::vector<std::uint32_t> ended, first_ended;
  std::deque<UsedMemory> memories;
  std::vector<std::uint32_t> before;   // for each op: the number of ops that it directly follows
  bool async = false;                  // whether the graph has asynchronous ops
  bool streams = false;                // whether the graph has ops on streams
  bool cpu = false;                    // whether the graph has ops that run on the CPU
  bool chain = false;                  // whether no two ops of the graph can run at once
  std::unique_ptr<Segments> segments;  // see segment.h; null without ops on streams
  std::vector<std::shared_ptr<SlotCell>> slots;
  std::vector<std::shared_ptr<const void>> values;  // the slots' values; null: not set
  std::vector<std::function<SlotValue()>>
      later_values;                   // of the slots; empty: values[i] is that of all launches
  std::atomic<bool> launched{false};  // whether a launch has taken the first values
  std::vector<std::function<void()>> at_launch;

  SpinLock lock;                 // guards last and after_last
  OpNode* last = nullptr;        // the op of the launch entered last; null if that launch has ended
  std::uint64_t after_last = 0;  // the sequence number that follows those of the launch entered last

  // The members below belong to the launch that runs. Two launches never overlap.
  ModeTuner mode_tuner;
  std::unique_ptr<std::atomic<std::uint32_t>[]> waiting;
  std::vector<std::uint32_t> ready;  // indices of ready ops; guarded by GraphRun::lock
};

// One launch of a graph. Helper tasks hold references on it, since they may start when the launch has ended
// and the graph is gone.
struct GraphRun {
  std::atomic<std::int64_t> refs{1};
  GraphState* graph = nullptr;
  EngineCore* core = nullptr;
  OpNode* op = nullptr;     // the op of the engine that stands for this launch
  std::uint64_t first = 0;  // the sequence number of the graph's first op in this launch
  // Whether run_checked() has to run the ops: a var of the graph is poisoned, the graph has asynchronous ops,
  // or the access checker is on.
  std::atomic<bool> check_errors{false};
  bool serial = false;
  int max_threads = 1;                 // most threads that run ops of the launch at once
  double began = 0;                    // time at which the launch began, in nanoseconds
  std::atomic<std::uint64_t> busy{0};  // nanoseconds that all threads together have spent on the launch
  std::atomic<std::uint32_t> left{0};  // number of the launch's ops that have not ended, nor are issued
  std::atomic<std::uint32_t> work{
      1};  // number of issued ops that are not done; one more until all are issued
  // Serial mode, with ops on streams: the ends of run_op() and of the op that it began. The second goes on with `next`.
  std::atomic<std::uint32_t> ends{0};
  std::uint32_t next = 0;
  std::unique_ptr<std::mt19937_64> random;  // only with Scheduler::fuzz: picks the next op

  SpinLock lock;           // guards all members below, and graph->ready
  bool open = false;       // whether ops of the launch are left to run
  int active_threads = 0;  // number of threads that run ops of the launch
  int queued_helpers = 0;  // number of helper tasks that no worker has started yet
};

void launch_graph(OpNode* op, GraphRun& run) noexcept;
void end_work(GraphRun& run) noexcept;  // decreases run.work, and ends the launch if that was the last
void release(GraphRun* run) noexcept;

// Called with an op that has its sequence number and is about to be entered. If it is a launch that directly
// follows the graph's last launch, which has not ended, it gets the vars of that launch when that ends. Then
// it must not be entered, and the result is true.
bool join_launch(OpNode& op) noexcept;

}  // namespace heddle::detail
