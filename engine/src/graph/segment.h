// Segments of a graph: ops that follow each other in push order on one stream, whose work is recorded once and enqueued by
// one call in later launches. In its graph a segment is one op: it begins when all that its ops wait for is issued or has
// ended, and is issued as one op with one fence. So it does not matter to any other op whether a launch replays it or issues its ops
// one by one, which it does
//   - in the first launch, after which all memory and all that libraries make is there,
//   - if something that it reads has failed, since some of its ops are skipped then,
//   - if an op says that its work is another one than in the launch that was recorded, until it is recorded again,
//   - if the access checker is on, which looks at functions.
// An op whose work cannot be recorded, or is often another one, is left out: the graph's segments are planned anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/replay.h"
#include "graph/graph_state.h"

namespace heddle::detail {

struct Segment {
  std::uint32_t first = 0, end = 0;  // the ops [first, end) of the graph
  std::vector<AccessNode> accesses;  // of all of them together

  // The members below belong to the launch that runs.
  std::uint64_t first_call =
      0;  // 1 + GraphRun::first of the launch that first called the functions; 0: none has
  std::shared_ptr<RecordedWork> work;  // null: not recorded
  std::vector<const void*> depends_on;
  std::vector<std::size_t> ends;  // for each op: the end of its part of depends_on
};

struct Segments {
  std::vector<std::shared_ptr<Segment>> of;  // for each op its segment; null: it is in none
  std::uint32_t units = 0;                   // number of segments and of other ops
  // For each op: whether it must not be in a segment, and how often its work was another one.
  std::vector<std::uint8_t> left_out, changes;
  // Threads that prepare two segments may both set these.
  std::atomic<bool> outdated{true};  // whether the next launch has to plan the segments
  std::atomic<bool> logged{false};   // whether the log has a line about this graph
  // The edges between ops. GraphState has those between segments and other ops, at the last op of a segment.
  std::vector<std::uint32_t> next_ops, first_next;
};

// Call before a launch starts ops, or when the graph was captured.
void plan_segments(GraphState& graph);

// The first op of the segment that has op i, and the end; i and i + 1 if none has.
inline std::uint32_t first_of(const GraphState& graph, std::uint32_t i) {
  return graph.segments && graph.segments->of[i] ? graph.segments->of[i]->first : i;
}
inline std::uint32_t end_of(const GraphState& graph, std::uint32_t i) {
  return graph.segments && graph.segments->of[i] ? graph.segments->of[i]->end : i + 1;
}
inline std::uint32_t units(const GraphState& graph) {
  return graph.segments ? graph.segments->units : graph.size();
}

// An op that stands for op i of the graph on its stream in this launch; or for the segment that begins with it, if its
// recorded work can be enqueued: records it if need be.
OpNode* op_to_issue(GraphRun& run, std::uint32_t i, int worker);
// An op that stands for op i alone.
OpNode* single_op_to_issue(GraphRun& run, std::uint32_t i);

// The index of the first op, and of the last, that an op of a launch stands for.
inline std::uint32_t index_of(const OpNode& op) {
  return static_cast<std::uint32_t>(op.sequence - op.extra->launch->first);
}
inline std::uint32_t last_index_of(const OpNode& op) {
  return replays(op) ? op.extra->replay->segment->end - 1 : index_of(op);
}

}  // namespace heddle::detail
