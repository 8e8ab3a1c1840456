#include "graph/segment.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include <heddle/check.h>

#include "base/log.h"
#include "core/capture.h"
#include "core/core.h"
#include "op/failure.h"
#include "stream/streams.h"

namespace heddle::detail {
namespace {

// Launches whose work is another one than that of the launch before, after which an op is left out of segments.
constexpr std::uint8_t kMostChanges = 3;

constexpr std::uint64_t kEarlier = ~std::uint64_t{0};  // a Segment::first_call of no launch

StreamLane* stream_lane(const OpNode& op) { return op.extra ? op.extra->on : nullptr; }

bool may_be_in_segment(const GraphState& graph, std::uint32_t i) {
  const OpNode& op = *graph.ops[i].node;
  if (!stream_lane(op) || graph.segments->left_out[i]) return false;
  return op.table && op.table->replays && !op.table->skipped && !op.table->outcome;
}

// The accesses of all ops: a var is read if its first access reads it, since later ones see what the segment has written.
std::vector<AccessNode> accesses_of(const GraphState& graph, const Segment& segment) {
  std::vector<AccessNode> all;
  std::unordered_map<const VarState*, std::size_t> places;
  for (std::uint32_t i = segment.first; i < segment.end; ++i) {
    const OpNode& op = *graph.ops[i].node;
    for (std::uint32_t at = 0; at < op.access_count; ++at) {
      const AccessNode& access = op.accesses()[at];
      const auto [place, is_new] = places.try_emplace(access.var, all.size());
      if (is_new) {
        all.push_back(access);
      } else {
        AccessNode& known = all[place->second];
        if (!known.mutates) known.reads |= access.reads;
        known.mutates |= access.mutates;
      }
    }
  }
  return all;
}

void add_segment(GraphState& graph, std::uint32_t first, std::uint32_t end, std::uint64_t first_call) {
  auto segment = std::make_shared<Segment>();
  segment->first = first;
  segment->end = end;
  segment->first_call = first_call;
  segment->accesses = accesses_of(graph, *segment);
  for (std::uint32_t i = first; i < end; ++i) graph.segments->of[i] = segment;
  graph.segments->units -= end - first - 1;
}

void find_segments(GraphState& graph, std::uint64_t first_call) {
  Segments& all = *graph.segments;
  all.of.assign(graph.size(), nullptr);
  all.units = graph.size();
  for (std::uint32_t first = 0, end = 0; first < graph.size(); first = std::max(end, first + 1)) {
    for (end = first; end < graph.size() && may_be_in_segment(graph, end); ++end) {
      if (stream_lane(*graph.ops[end].node) != stream_lane(*graph.ops[first].node)) break;
    }
    if (end > first + 1) add_segment(graph, first, end, first_call);
  }
}

// The edges between segments and other ops. Segments are intervals of the push order, so there are no cycles.
void find_edges(GraphState& graph) {
  const Segments& all = *graph.segments;
  graph.next_ops.clear();
  graph.first_next.assign(1, 0);
  std::fill(graph.before.begin(), graph.before.end(), 0);
  std::vector<std::uint32_t> next;
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    for (std::uint32_t at = all.first_next[i]; at < all.first_next[i + 1]; ++at) {
      const std::uint32_t to = first_of(graph, all.next_ops[at]);
      if (to != first_of(graph, i)) next.push_back(to);
    }
    graph.first_next.push_back(static_cast<std::uint32_t>(graph.next_ops.size()));
    if (i + 1 < end_of(graph, i)) continue;
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    for (const std::uint32_t to : next) ++graph.before[to];
    graph.next_ops.insert(graph.next_ops.end(), next.begin(), next.end());
    graph.first_next.back() = static_cast<std::uint32_t>(graph.next_ops.size());
    next.clear();
  }
}

}  // namespace

void plan_segments(GraphState& graph) {
  if (!graph.streams || (graph.segments && !graph.segments->outdated)) return;
  const bool first_time = !graph.segments;
  if (first_time) {
    graph.segments = std::make_unique<Segments>();
    graph.segments->left_out.assign(graph.size(), 0);
    graph.segments->changes.assign(graph.size(), 0);
    graph.segments->next_ops = graph.next_ops;
    graph.segments->first_next = graph.first_next;
  }
  find_segments(graph, first_time ? 0 : kEarlier);
  find_edges(graph);
  graph.segments->outdated = false;
}

OpNode* single_op_to_issue(GraphRun& run, std::uint32_t i) {
  const GraphOp& of = run.graph->ops[i];
  OpNode* op = allocate_op(run.core, of.node->access_count, sizeof(void*), true);
  op->flags |= OpNode::kOfGraph;
  op->access_count = of.node->access_count;
  for (std::uint32_t at = 0; at < op->access_count; ++at) {
    ::new (&op->accesses()[at]) AccessNode(of.node->accesses()[at]);
    op->accesses()[at].op = op;
  }
  ::new (op->place()) void*(of.closure);
  op->table = of.node->table;
  op->name = of.name;
  op->where = of.node->where;
  op->sequence = run.first + i;
  op->epoch = run.op->epoch;
  op->extra->on = of.node->extra->on;
  op->extra->launch = &run;
  return op;
}

namespace {

void enqueue_recorded(void*, RunContext&, OpNode* op);
constexpr OpTable kReplayTable{false, enqueue_recorded, nullptr, nullptr, true};

OpNode* segment_op(GraphRun& run, const std::shared_ptr<Segment>& segment) {
  OpNode* op = allocate_op(run.core, segment->accesses.size(), sizeof(void*), true);
  op->flags |= OpNode::kOfGraph;
  op->access_count = static_cast<std::uint32_t>(segment->accesses.size());
  for (std::uint32_t at = 0; at < op->access_count; ++at) {
    ::new (&op->accesses()[at]) AccessNode(segment->accesses[at]);
    op->accesses()[at].op = op;
  }
  ::new (op->place()) void*(nullptr);
  op->table = &kReplayTable;
  op->name = "replayed ops";
  op->where = run.graph->where;
  op->sequence = run.first + segment->first;
  op->epoch = run.op->epoch;
  op->extra->on = run.graph->ops[segment->first].node->extra->on;
  op->extra->launch = &run;
  op->extra->replay = std::make_shared<Replay>();
  op->extra->replay->work = segment->work;
  op->extra->replay->segment = segment;
  return op;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

// From now on the ops [first, end) are in no segment.
void leave_out(GraphState& graph, std::uint32_t first, std::uint32_t end) {
  std::fill(graph.segments->left_out.begin() + first, graph.segments->left_out.begin() + end, 1);
  graph.segments->outdated = true;
}

void log_refusal(GraphState& graph, const char* op, const std::exception_ptr& error) {
  if (graph.segments->logged.exchange(true)) return;
  log(std::string("graph '") + graph.name + "': work of '" + op +
      "' cannot be recorded, so each launch enqueues it anew: " + text_of(error));
}

// Calls the function of op i of the graph, which enqueues on the recorder, or on its stream if that is null.
void call_function(GraphRun& run, std::uint32_t i, Stream* recorder, int worker) {
  OpNode* const op = single_op_to_issue(run, i);
  const std::unique_ptr<OpNode, void (*)(OpNode*)> owned(op, [](OpNode* made) { free_op(made); });
  op->extra->replay = std::make_shared<Replay>();
  op->extra->replay->recorder = recorder;
  const InsideOp inside(run.core, op, worker);
  RunContext context{op->name, worker, op->sequence};
  op->table->run(closure_of(op), context, op);
}

void enqueue_recorded(void*, RunContext& context, OpNode* op) {
  GraphRun& run = *op->extra->launch;
  const Segment& segment = *op->extra->replay->segment;
  try {
    return op->extra->on->issuer.stream().replay(*op->extra->replay->work);
  } catch (...) {
    log_refusal(*run.graph, run.graph->ops[segment.first].name, std::current_exception());
  }
  leave_out(*run.graph, segment.first, segment.end);
  for (std::uint32_t i = segment.first; i < segment.end; ++i) call_function(run, i, nullptr, context.worker);
}

// False if the segment cannot be recorded: then the ops that refuse it are left out from now on.
bool record(GraphRun& run, Segment& segment, int worker) noexcept {
  GraphState& graph = *run.graph;
  std::uint32_t at = segment.first;
  try {
    const auto recorder = stream_lane(*graph.ops[at].node)->issuer.stream().record_work();
    if (!recorder) {
      leave_out(graph, segment.first, segment.end);
      return false;
    }
    for (; at < segment.end; ++at) call_function(run, at, &recorder->stream(), worker);
    segment.work = recorder->finish();
    return true;
  } catch (const NotRecordable&) {
  } catch (...) {
    log_refusal(graph, graph.ops[std::min(at, segment.end - 1)].name, std::current_exception());
  }
  at < segment.end ? leave_out(graph, at, at + 1) : leave_out(graph, segment.first, segment.end);
  return false;
}

// What the work of the segment's ops depends on now. False if an op is not to be recorded in this launch.
bool find_state(GraphState& graph, const Segment& segment, std::vector<const void*>& depends_on,
                std::vector<std::size_t>& ends) noexcept {
  for (std::uint32_t i = segment.first; i < segment.end; ++i) {
    const GraphOp& op = graph.ops[i];
    try {
      if (!op.node->table->replays(op.closure, depends_on)) return false;
      ends.push_back(depends_on.size());
    } catch (...) {
      log_refusal(graph, op.name, std::current_exception());
      leave_out(graph, i, i + 1);
      return false;
    }
  }
  return true;
}

// Counts for each op whether its work is another one than what was recorded. False if that is so too often for one of them.
bool count_changes(GraphState& graph, const Segment& segment, const std::vector<const void*>& depends_on,
                   const std::vector<std::size_t>& ends) noexcept {
  bool rare = true;
  for (std::uint32_t i = segment.first; i < segment.end; ++i) {
    const std::size_t at = i - segment.first, old_begin = at == 0 ? 0 : segment.ends[at - 1],
                      begin = at == 0 ? 0 : ends[at - 1];
    const bool same = std::equal(segment.depends_on.begin() + static_cast<std::ptrdiff_t>(old_begin),
                                 segment.depends_on.begin() + static_cast<std::ptrdiff_t>(segment.ends[at]),
                                 depends_on.begin() + static_cast<std::ptrdiff_t>(begin),
                                 depends_on.begin() + static_cast<std::ptrdiff_t>(ends[at]));
    if (same || ++graph.segments->changes[i] < kMostChanges) continue;
    leave_out(graph, i, i + 1);
    rare = false;
  }
  return rare;
}

// Whether the segment's recorded work is what its functions would enqueue now; records it if need be.
bool prepare(GraphRun& run, Segment& segment, int worker) noexcept {
  if (segment.first_call == 0) segment.first_call = run.first + 1;
  if (segment.first_call == run.first + 1 || checking.load(std::memory_order_relaxed)) return false;
  GraphState& graph = *run.graph;
  std::vector<const void*> depends_on;
  std::vector<std::size_t> ends;
  depends_on.reserve(segment.depends_on.size());
  ends.reserve(segment.end - segment.first);
  if (!find_state(graph, segment, depends_on, ends)) return false;
  if (segment.work && depends_on == segment.depends_on && ends == segment.ends) return true;
  if (segment.work && !count_changes(graph, segment, depends_on, ends)) return false;
  segment.work.reset();  // ops of earlier launches may still hold it
  segment.depends_on = std::move(depends_on);
  segment.ends = std::move(ends);
  return record(run, segment, worker);
}

void take_earlier(FailurePtr& first, const FailurePtr& failure) {
  if (failure && (!first || earlier(*failure, *first))) first = failure;
}

}  // namespace

OpNode* op_to_issue(GraphRun& run, std::uint32_t i, int worker) {
  GraphState& graph = *run.graph;
  const std::shared_ptr<Segment> segment = graph.segments->of[i];
  if (segment && segment->first == i && prepare(run, *segment, worker)) return segment_op(run, segment);
  return single_op_to_issue(run, i);
}

void graph_op_divides(OpNode* op) noexcept {
  GraphRun& run = *op->extra->launch;
  OpNode* const first = single_op_to_issue(run, index_of(*op));
  free_op(op);
  run.core->stream_ops.issue_in_turn(first, this_thread_state.worker);
}

// The ops of a segment fail as if each had been issued alone: one that reads what has failed inherits that, and an error
// of the device fails all others.
VarFailures graph_op_outcome(OpNode& op, std::exception_ptr own, const VarFailures& inherited) noexcept {
  if (!own && inherited.empty()) return {};
  GraphRun& run = *op.extra->launch;
  const Segment& segment = *op.extra->replay->segment;
  std::unordered_map<const void*, FailurePtr> failed;
  for (const auto& [var, failure] : inherited) take_earlier(failed[var], failure);
  for (std::uint32_t i = segment.first; i < segment.end; ++i) {
    OpNode* const one = single_op_to_issue(run, i);
    FailurePtr failure;
    for (std::uint32_t at = 0; at < one->access_count; ++at) {
      const auto found = failed.find(one->accesses()[at].var);
      if (one->accesses()[at].reads && found != failed.end()) take_earlier(failure, found->second);
    }
    if (failure) {
      failure = ErrorLog::skipped(*one, std::move(failure));
    } else if (own) {
      failure = run.core->errors.failed(*one, own);
    }
    for (std::uint32_t at = 0; at < one->access_count; ++at) {
      if (one->accesses()[at].mutates) failed[one->accesses()[at].var] = failure;
    }
    free_op(one);
  }
  VarFailures left;
  for (const AccessNode& access : segment.accesses) {
    const auto found = access.mutates ? failed.find(access.var) : failed.end();
    if (found != failed.end() && found->second) left.emplace_back(access.var, found->second);
  }
  op.extra->replay->failures = left;
  return left;
}

}  // namespace heddle::detail
