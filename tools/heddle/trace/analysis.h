// Analysis of a trace: the lanes' use, the critical path, time by op, and gaps.
#pragma once

#include <cstdint>
#include <vector>

#include "communication.h"
#include "trace_file.h"

namespace heddle::tool {

struct LaneUse {
  std::uint32_t lane;  // index into Trace::lanes
  std::uint64_t ops = 0;
  std::int64_t busy = 0;     // nanoseconds in which at least one op ran on the lane
  std::int64_t waiting = 0;  // nanoseconds in which the lane's thread waited
};

struct NameUse {
  std::uint32_t name, where;  // indices into Trace::strings; `where` is set in Analysis::lines only
  std::uint64_t count = 0;
  double total = 0;  // nanoseconds of all these ops together
  std::int64_t longest = 0;
  std::uint32_t first = kNobody;  // index into Trace::slices of the op that started first
  bool costly_first = false;      // whether the first op took far longer than the later ones
};

// A time between two ops of a lane in which the lane ran no op.
struct Gap {
  std::uint32_t lane;
  std::int64_t start, end;
  std::uint32_t before, after;  // the ops around the gap: indices into Trace::slices
};

// The chain of ops, each of which had to wait for the previous one, that takes the most time. A push that was
// blocked in a bounded engine is a link between the op that made room and the pushed op. Of its time, only
// the part in which no op of the chain ran counts.
struct CriticalPath {
  std::vector<std::uint32_t> ops;  // ops and blocked pushes, from the first: indices into Trace::slices
  std::size_t blocked = 0;         // number of blocked pushes in `ops`
  std::vector<NameUse> names;      // `ops` summed by name, the most time first
  double inside = 0;               // nanoseconds in the ops of the chain
  double between = 0;              // nanoseconds from the end of each op to the start of the next
};

struct Analysis {
  std::int64_t start = 0, end = 0;  // when the first op starts and the last op ends, in nanoseconds
  std::uint64_t ops = 0;
  double total = 0;             // sum of the durations of all ops, in nanoseconds
  double first_calls = 0;       // nanoseconds that costly first ops took beyond the mean of later ones
  std::int64_t nobody = 0;      // nanoseconds in which no op ran on any lane
  std::vector<LaneUse> lanes;   // the lanes that ran ops or waited, in the order of Trace::lanes
  std::vector<NameUse> names;   // use of each name, the most time first
  std::vector<NameUse> lines;   // use of each name and line of the push, the most time first
  std::vector<Gap> gaps;        // the longest gaps first, at most as many as requested
  std::uint64_t gap_count = 0;  // number of all gaps, also of those that are not in `gaps`
  CriticalPath path;
  std::vector<CommunicationUse> communication;  // one for each process that communicated, by its number
  std::int64_t span() const { return end - start; }
};

// Analyses a trace. The result has at most `most_gaps` gaps.
Analysis analyse(const Trace& trace, std::size_t most_gaps);

}  // namespace heddle::tool
