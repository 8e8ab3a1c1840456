// How a graph is captured, and launched as one op of the engine.
#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <heddle/graph.h>
#include <heddle/launch_memory.h>

#include "core/capture.h"
#include "core/core.h"
#include "graph/graph_state.h"
#include "graph/segment.h"

namespace heddle {
namespace detail {

// Records the ops of one capture, in push order, and finds their dependencies.
struct Recorder {
  // Which of the ops recorded so far use a var.
  struct Use {
    std::size_t access;        // index of the var's access in graph->accesses
    bool filled;               // whether the first op of the graph mutates the var without reading it
    std::int64_t writer = -1;  // the last op that mutates the var; -1: none
    std::vector<std::uint32_t> readers;  // ops that read the var after `writer`
    bool on_stream = false;              // whether an op on a stream uses the var
  };
  std::shared_ptr<GraphState> graph;
  std::unordered_map<VarState*, Use> uses;
  std::unordered_set<const void*> launch_keys;  // keys of at_each_launch() calls
  std::unordered_map<VarState*, LaunchUse> memories;
  std::vector<std::vector<std::uint32_t>> next_ops;
  std::vector<std::uint32_t> depths;  // for each op: the number of ops on the longest path that ends with it

  void record(OpNode* op);
  void follow(std::uint32_t op, const AccessNode& access, bool on_stream);
  void add_edge(std::int64_t from, std::uint32_t to);
  Use& use_of(const AccessNode& access);
  void flatten();
  void plan_memory();

  static constinit thread_local Recorder* current;
};
constinit thread_local Recorder* Recorder::current = nullptr;

Recorder::Use& Recorder::use_of(const AccessNode& access) {
  std::vector<AccessNode>& accesses = graph->accesses;
  const auto [at, is_new] =
      uses.try_emplace(access.var, Use{accesses.size(), access.mutates && !access.reads, -1, {}});
  if (is_new) {
    accesses.push_back({nullptr, access.var, nullptr, false, false, true, true});
    retain(access.var);
  }
  accesses[at->second.access].mutates |= access.mutates;
  return at->second;
}

void Recorder::add_edge(std::int64_t from, std::uint32_t to) {
  if (from < 0) return;
  std::vector<std::uint32_t>& next = next_ops[static_cast<std::size_t>(from)];
  if (!next.empty() && next.back() == to) return;  // added before, because the two ops share another var too
  next.push_back(to);
  ++graph->before[to];
  depths[to] = std::max(depths[to], depths[static_cast<std::size_t>(from)] + 1);
}

void Recorder::follow(std::uint32_t op, const AccessNode& access, bool on_stream) {
  Use& use = use_of(access);
  use.on_stream |= on_stream;
  if (!access.mutates) {
    add_edge(use.writer, op);
    use.readers.push_back(op);
    return;
  }
  if (use.readers.empty()) add_edge(use.writer, op);  // else op follows the writer through the readers
  for (const std::uint32_t reader : use.readers) add_edge(reader, op);
  use.readers.clear();
  use.writer = op;
}

void Recorder::record(OpNode* op) {
  const std::uint32_t index = graph->size();
  constexpr auto kNothing = [](void*, RunContext&, OpNode*) {};  // the function of an op without a table
  try {
    graph->ops.push_back({op->table ? op->table->run : kNothing, closure_of(op), op->name, op});
  } catch (...) {
    destroy_closure(op);
    free_op(op);
    throw;
  }
  graph->before.push_back(0);
  next_ops.emplace_back();
  depths.push_back(1);
  const bool on_stream = op->extra && op->extra->on;
  graph->async |= op->table && op->table->async;
  graph->streams |= on_stream;
  graph->cpu |= !on_stream;
  for (std::uint32_t i = 0; i < op->access_count; ++i) follow(index, op->accesses()[i], on_stream);
}

void Recorder::flatten() {
  graph->first_next.reserve(next_ops.size() + 1);
  graph->first_next.push_back(0);
  for (const auto& next : next_ops) {
    graph->next_ops.insert(graph->next_ops.end(), next.begin(), next.end());
    graph->first_next.push_back(static_cast<std::uint32_t>(graph->next_ops.size()));
  }
  const auto deepest = std::max_element(depths.begin(), depths.end());
  graph->chain = depths.empty() || *deepest == depths.size();
  graph->waiting = std::make_unique<std::atomic<std::uint32_t>[]>(graph->ops.size());
  graph->ready.reserve(graph->ops.size());
}

// Finds the ops after which a launch needs the memory of a var no more: those that read it after its last writer, or
// that writer. Memory that an op on a stream uses is kept: the next launch may have issued work with its address before
// the last user's work is done.
void Recorder::plan_memory() {
  std::vector<std::vector<std::uint32_t>> ended(next_ops.size());
  for (auto& [var, entry] : memories) {
    const auto use = uses.find(var);
    if (!entry.memory || use == uses.end() || !use->second.filled || use->second.on_stream) continue;
    std::vector<std::uint32_t> last = use->second.readers;
    if (last.empty()) last.push_back(static_cast<std::uint32_t>(use->second.writer));
    const auto number = static_cast<std::uint32_t>(graph->memories.size());
    graph->memories.emplace_back(std::move(entry.memory), static_cast<std::uint32_t>(last.size()));
    for (const std::uint32_t op : last) ended[op].push_back(number);
  }
  if (graph->memories.empty()) return;
  graph->first_ended.push_back(0);
  for (std::vector<std::uint32_t>& of_op : ended) {
    std::sort(of_op.begin(), of_op.end());
    graph->ended.insert(graph->ended.end(), of_op.begin(), of_op.end());
    graph->first_ended.push_back(static_cast<std::uint32_t>(graph->ended.size()));
  }
}

Capture::Capture(EngineCore* core, const char* name, std::source_location where) {
  refuse_in_capture("another capture");
  core->check_open();
  if (!name)
    throw InvalidArgument("capture: the name is a null pointer; want a string that outlives the graph");
  recorder_ = std::make_unique<Recorder>();
  recorder_->graph = std::make_shared<GraphState>(core, name, where);
  Recorder::current = recorder_.get();
}

Capture::~Capture() { Recorder::current = nullptr; }

std::shared_ptr<GraphState> Capture::finish() {
  recorder_->flatten();
  recorder_->plan_memory();
  plan_segments(*recorder_->graph);
  return std::move(recorder_->graph);
}

// Adds a var of the graph's own, which every launch mutates, so that two launches never overlap.
GraphState::GraphState(EngineCore* of, const char* graph_name, std::source_location captured)
    : core(of), name(graph_name), where(captured) {
  core->retain();
  accesses.push_back({nullptr, new VarState(core), nullptr, false, true, true, true});
}

GraphState::~GraphState() {
  for (const GraphOp& op : ops) {
    destroy_closure(op.node);
    free_op(op.node);
  }
  for (const AccessNode& access : accesses) release(access.var);
  core->release();
}

void refuse_in_capture(const char* what) {
  if (!Recorder::current) [[likely]]
    return;
  throw Error(with_call_site(
      std::string(what) +
      " while this thread captures a graph: nothing that is pushed now runs; do it outside the capture"));
}

void check_capture(const EngineCore* core) {
  const Recorder* recorder = Recorder::current;
  if (!recorder || recorder->graph->core == core) [[likely]]
    return;
  throw Error(
      "a push on another engine than the one whose graph this thread captures; push it outside the capture");
}

void submit_or_record(EngineCore* core, OpNode* op) {
  if (Recorder::current) [[unlikely]]
    return core->budget.release_unpushed(op->bytes()), Recorder::current->record(op);
  core->scheduler().submit(op);
}

bool capturing() { return Recorder::current != nullptr; }

namespace {

std::shared_ptr<SlotCell> add_slot(SlotValue first, std::function<SlotValue()> later) {
  if (!Recorder::current)
    throw Error(
        "slot: this thread captures no graph; call it inside the function that Engine::capture is given");
  GraphState& graph = *Recorder::current->graph;
  auto cell = std::make_shared<SlotCell>(graph.slots.size());
  graph.values.push_back(std::move(first));
  graph.later_values.push_back(std::move(later));
  graph.slots.push_back(cell);
  return cell;
}

}  // namespace

std::shared_ptr<SlotCell> new_slot(EngineCore* core) {
  check_capture(core);
  return add_slot({}, {});
}

std::shared_ptr<SlotCell> new_launch_slot(SlotValue first, std::function<SlotValue()> later) {
  return add_slot(std::move(first), std::move(later));
}

const void* slot_value(const SlotCell* cell) {
  if (!cell) throw InvalidArgument("a Slot of no graph; slots are made by Engine::slot in a capture");
  // relaxed: the thread that launches the graph sets the values before its ops start.
  const void* value = cell->value.load(std::memory_order_relaxed);
  if (!value) throw Error("a Slot has a value only inside the ops of its graph");
  return value;
}

namespace {

// The closure of a launch, which is an op of the engine.
struct Launch {
  std::shared_ptr<GraphState> graph;
  std::vector<std::shared_ptr<const void>> values;
  GraphRun* run;

  static void start(void* self, RunContext&, OpNode* op) {
    auto& launch = *static_cast<Launch*>(self);
    for (std::size_t i = 0; i < launch.values.size(); ++i) {
      launch.graph->slots[i]->value.store(launch.values[i].get(), std::memory_order_relaxed);
    }
    launch_graph(op, *launch.run);
  }
  static void destroy(void* self) noexcept {
    auto* launch = static_cast<Launch*>(self);
    release(launch->run);
    launch->~Launch();
  }
  static constexpr OpTable table{true, start, destroy, nullptr};
};

void bind_value(const GraphState& graph, std::vector<std::shared_ptr<const void>>& values,
                const Binding& binding) {
  const SlotCell* cell = binding.cell.get();
  if (!cell || cell->index >= graph.slots.size() || graph.slots[cell->index].get() != cell) {
    throw InvalidArgument(std::string("graph '") + graph.name +
                          "': " + (cell ? "a Slot of another graph" : "a Slot of no graph") +
                          "; want one that Engine::slot made in its capture");
  }
  if (!binding.value)
    throw InvalidArgument(std::string("graph '") + graph.name + "': a Binding without a value");
  if (values[cell->index] != graph.values[cell->index]) {
    throw InvalidArgument(std::string("graph '") + graph.name + "': slot " + std::to_string(cell->index) +
                          " is bound twice in one launch; bind it once");
  }
  values[cell->index] = binding.value;
}

void check_values(const GraphState& graph, const std::vector<std::shared_ptr<const void>>& values) {
  const auto missing = std::find(values.begin(), values.end(), nullptr);
  if (missing == values.end()) return;
  throw InvalidArgument(std::string("graph '") + graph.name + "': slot " +
                        std::to_string(missing - values.begin()) + " of " + std::to_string(values.size()) +
                        " has no value; bind one to the launch, or set one");
}

// Replaces the values of slots that have another one in each launch.
void take_later_values(GraphState& graph, std::vector<std::shared_ptr<const void>>& values) {
  if (!graph.launched.exchange(true, std::memory_order_relaxed)) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (graph.later_values[i] && values[i] == graph.values[i]) values[i] = graph.later_values[i]();
  }
}

OpNode* launch_op(GraphState& graph) {
  const std::size_t count = graph.accesses.size();
  std::unique_ptr<BlockedPush> blocked = graph.core->budget.acquire(0);
  OpNode* op = allocate_op(graph.core, count, sizeof(Launch), true);
  op->extra->blocked = std::move(blocked);
  op->access_count = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto* access = ::new (&op->accesses()[i]) AccessNode(graph.accesses[i]);
    access->op = op;
    // False until this access is entered: a WaitSearch may find the op through another var before that, and
    // would take the ops queued on this var for followers of the launch.
    access->granted = false;
  }
  op->table = &Launch::table;
  op->name = graph.name;
  op->where = graph.where;
  op->extra->graph = &graph;
  op->extra->issues = graph.streams;
  op->extra->numbers = std::max<std::size_t>(1, graph.ops.size());
  return op;
}

GraphState& state_of(const std::shared_ptr<GraphState>& state, const char* what) {
  if (!state)
    throw InvalidArgument(std::string(what) + ": an empty Graph; graphs are made by Engine::capture");
  return *state;
}

}  // namespace

void launch_issued(OpNode* op) noexcept {
  GraphRun& run = *static_cast<Launch*>(op->place())->run;
  if (OpObserver* observer = run.core->observer()) observer->completed(*op);
  run.core->scheduler().issued(op);
  end_work(run);
}

}  // namespace detail

using namespace detail;

void Graph::launch_with(std::span<const Binding> bindings) const {
  GraphState& graph = state_of(state_, "launch");
  refuse_in_capture("launch");
  graph.core->check_open();
  std::vector<std::shared_ptr<const void>> values = graph.values;
  for (const Binding& binding : bindings) bind_value(graph, values, binding);
  check_values(graph, values);
  take_later_values(graph, values);
  for (const auto& call : graph.at_launch) call();
  auto run = std::make_unique<GraphRun>();
  run->graph = &graph;
  OpNode* op = launch_op(graph);
  ::new (op->place()) Launch{state_, std::move(values), run.release()};
  graph.core->scheduler().submit(op);
}

void Graph::set_value(Binding binding) {
  GraphState& graph = state_of(state_, "set");
  bind_value(graph, graph.values, binding);
  graph.later_values[binding.cell->index] = nullptr;
}

std::size_t Graph::size() const { return state_of(state_, "size").ops.size(); }

bool is_capturing() noexcept { return detail::Recorder::current != nullptr; }

LaunchUse& launch_use(const Var& var) {
  Recorder* const recorder = Recorder::current;
  if (!recorder)
    throw Error(
        "launch_use: this thread captures no graph; call it inside the function that Engine::capture is "
        "given");
  LaunchUse& use = recorder->memories[var.state()];
  if (!use.var) use.var = var;
  return use;
}

void at_each_launch(const void* key, std::function<void()> call) {
  Recorder* recorder = Recorder::current;
  if (!recorder)
    throw Error(
        "at_each_launch: this thread captures no graph; call it inside the function that "
        "Engine::capture is given");
  if (!call) throw InvalidArgument("at_each_launch: the function is empty");
  if (recorder->launch_keys.insert(key).second) recorder->graph->at_launch.push_back(std::move(call));
}

}  // namespace heddle
