// A trace in memory, read from a file of the Chrome trace format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::tool {

enum class SliceKind : std::uint8_t {
  op,       // the time in which an op ran
  async,    // an asynchronous op, from its function's start to its completion
  issue,    // the function of an asynchronous op
  wait,     // a wait of a thread; `sequence` is the op inside which the thread waits, if there is one
  gap,      // a gap in the records, which were lost
  blocked,  // a push blocked by a bounded engine: released_by is the op that made room for the op `sequence`
};

inline constexpr std::uint32_t kNobody = ~0u;
inline constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

// An interval of the trace; times in nanoseconds.
struct Slice {
  std::int64_t start = 0, duration = 0;
  std::uint64_t sequence = kNoSequence, released_by = kNoSequence;  // sequence numbers of ops of `engine`
  std::uint64_t process = 0;
  std::uint32_t engine = 0;
  std::uint32_t lane = 0;   // index into Trace::lanes
  std::uint32_t name = 0;   // index into Trace::strings
  std::uint32_t where = 0;  // index into Trace::strings of the call site that pushed the op; 0 if not known
  SliceKind kind = SliceKind::op;
  std::int64_t end() const { return start + duration; }
  bool is_op() const { return kind == SliceKind::op || kind == SliceKind::async; }
};

struct Lane {
  std::uint64_t process = 0, thread = 0;  // if the trace is of several files, `process` is the rank
  std::string name;
};

// Op `to` had to wait for op `from`.
struct Dependency {
  std::uint32_t from, to;  // indices into Trace::slices
};

// A push blocked by a bounded engine. The members are indices into Trace::slices.
struct BlockedPush {
  std::uint32_t push;  // the slice of kind `blocked`
  std::uint32_t from;  // the op that made room, which was pushed before `to`; kNobody if not known
  std::uint32_t to;    // the op that was pushed
};

struct Trace {
  std::vector<Slice> slices;  // first the ops and asynchronous ops, sorted by engine and sequence, then all
                              // others
  std::size_t ops = 0;        // number of ops and asynchronous ops in `slices`
  std::vector<Lane> lanes;    // sorted by process and thread
  std::vector<std::string> strings;
  std::vector<Dependency> dependencies;  // sorted by `to`, unique; `from` was pushed before `to`
  std::vector<BlockedPush> blocked;      // sorted by `to`
  std::uint64_t dropped = 0;             // records lost during recording
  std::uint64_t ignored = 0;             // number of dependencies on unknown or later ops, which are left out
  bool cut_off = false;                  // whether the file ends early: the process was killed, or still runs
  bool ranks = false;                    // whether the trace is of several files, so that processes are ranks
};

// Reads one or several trace files. Several files are traces of the ranks of one job, and their times are
// shifted to one clock. If no file states its rank, the files are numbered in the given order. Throws
// std::runtime_error with the file, the position and the problem.
Trace read_traces(const std::vector<std::string>& paths);

}  // namespace heddle::tool
