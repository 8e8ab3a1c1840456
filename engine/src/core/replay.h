// What an op has that stands for a segment of a graph (graph/segment.h), or whose function is called to record its work.
#pragma once

#include <memory>

#include "op/op_node.h"
#include "stream/fence.h"
#include "stream/recorded_work.h"

namespace heddle::detail {

struct Segment;

struct Replay {
  Stream* recorder = nullptr;          // set while the op's work is recorded: in place of the op's stream
  std::shared_ptr<RecordedWork> work;  // set for an op that stands for a segment: what it enqueues
  std::shared_ptr<const Segment> segment;
  VarFailures failures;  // of the vars that the segment mutates, once its work is done
};

inline bool replays(const OpNode& op) { return op.extra && op.extra->replay && op.extra->replay->work; }

}  // namespace heddle::detail
