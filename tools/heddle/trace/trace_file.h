// A trace in memory, read from a file of the Chrome trace format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::tool {

enum class SliceKind : std::uint8_t {
  op,     // an op that ran
  async,  // an asynchronous op, from its function's start to its completion
  issue,  // the function of one
  wait,   // a thread that waits; `sequence` is the op inside which it does, if there is one
  gap,    // records were lost
  blocked,  // a push that waited for room in a bounded engine; `sequence` is the pushed op, `released_by` gave room
};

inline constexpr std::uint32_t kNobody = ~0u;
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

// Something that took time; in nanoseconds.
struct Slice {
  std::int64_t start = 0, duration = 0;
  std::uint64_t sequence = kNoSequence, released_by = kNoSequence;  // of its engine
  std::uint64_t process = 0;
  std::uint32_t engine = 0;
  std::uint32_t lane = 0;   // index into Trace::lanes
  std::uint32_t name = 0;   // into Trace::strings
  std::uint32_t where = 0;  // likewise: of its push, 0 if not known
  SliceKind kind = SliceKind::op;
  std::int64_t end() const { return start + duration; }
  bool is_op() const { return kind == SliceKind::op || kind == SliceKind::async; }
};

struct Lane {
  std::uint64_t process = 0, thread = 0;  // of several files, the process is the rank
  std::string name;
};

// One op had to wait for another.
struct Dependency {
  std::uint32_t from, to;  // into Trace::slices
};

// A push that waited for room. Indices into Trace::slices.
struct BlockedPush {
  std::uint32_t push;  // its slice
  std::uint32_t from;  // the op that gave room, pushed before `to`; kNobody if it is not known
  std::uint32_t to;    // the op that was pushed
};

struct Trace {
  std::vector<Slice> slices;  // ops and asynchronous ops by engine and sequence, then the rest
  std::size_t ops = 0;        // how many of them are ops
  std::vector<Lane> lanes;    // by process and thread
  std::vector<std::string> strings;
  std::vector<Dependency> dependencies;  // by `to`; from an op that was pushed earlier, none twice
  std::vector<BlockedPush> blocked;      // by `to`
  std::uint64_t dropped = 0;             // records that were lost when it was recorded
  std::uint64_t ignored = 0;             // dependencies that lead nowhere or backwards
  bool cut_off = false;                  // the file has no end: the process was killed, or is still running
  bool ranks = false;                    // it is several files: processes are ranks
};

// Several files are those of the ranks of one job, laid on one clock; where none says its rank, they are numbered in the
// order given. Throws std::runtime_error that names the file, the place and what is wrong.
Trace read_traces(const std::vector<std::string>& paths);

}  // namespace heddle::tool
