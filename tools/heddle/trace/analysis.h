// What a trace says: who was busy, which chain of ops the time went into, which ops took most, where nobody worked.
#pragma once

#include <cstdint>
#include <vector>

#include "communication.h"
#include "trace_file.h"

namespace heddle::tool {

struct LaneUse {
  std::uint32_t lane;  // into Trace::lanes
  std::uint64_t ops = 0;
  std::int64_t busy = 0;     // nanoseconds in which at least one op ran on it
  std::int64_t waiting = 0;  // in which its thread waited
};

struct NameUse {
  std::uint32_t name, where;  // into Trace::strings; `where` of lines alone
  std::uint64_t count = 0;
  double total = 0;  // nanoseconds
  std::int64_t longest = 0;
  std::uint32_t first = kNobody;  // into Trace::slices: the op that started first
  bool costly_first = false;      // it took far longer than the later ones
};

// Time in which a lane ran no op, between two that it ran.
struct Gap {
  std::uint32_t lane;
  std::int64_t start, end;
  std::uint32_t before, after;  // into Trace::slices
};

// The chain of ops, each waiting for the one before, in which most time was spent. Where an op waited because its push waited
// for room, that push is in the chain, between the op that gave room and its own; its time counts where no op of the chain ran.
struct CriticalPath {
  std::vector<std::uint32_t> ops;  // and pushes; into Trace::slices, first to last
  std::size_t blocked = 0;         // how many are pushes
  std::vector<NameUse> names;      // the same summed by name, most time first
  double inside = 0;               // nanoseconds in the ops
  double between = 0;              // from the end of one to the start of the next
};

struct Analysis {
  std::int64_t start = 0, end = 0;  // of all ops
  std::uint64_t ops = 0;
  double total = 0;         // of the lengths of all ops
  double first_calls = 0;   // by which costly first ops of a name took longer than the mean of the later ones
  std::int64_t nobody = 0;  // no op ran anywhere
  std::vector<LaneUse> lanes;   // that ran ops or waited, in the order of Trace::lanes
  std::vector<NameUse> names;   // most time first
  std::vector<NameUse> lines;   // the same by name and the line that pushed the op
  std::vector<Gap> gaps;        // the longest first, as many as were wanted
  std::uint64_t gap_count = 0;  // of all
  CriticalPath path;
  std::vector<CommunicationUse> communication;  // of the processes that had any, in order
  std::int64_t span() const { return end - start; }
};

// With at most `most_gaps` gaps.
Analysis analyse(const Trace& trace, std::size_t most_gaps);

}  // namespace heddle::tool
