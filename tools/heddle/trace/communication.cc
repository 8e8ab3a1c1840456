#include "communication.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace heddle::tool {
namespace {

// Whether ops of this name communicate. The name may end with a size: "all_reduce 4096 B".
bool communicates(const std::string& name) {
  const std::string_view kind = std::string_view(name).substr(0, name.find(' '));
  constexpr std::string_view kCollectives[] = {"all_reduce", "reduce_scatter", "all_gather",
                                               "broadcast",  "reduce",         "all_to_all",
                                               "send",       "recv",           "barrier"};
  return kind.starts_with("kvstore_") ||
         std::find(std::begin(kCollectives), std::end(kCollectives), kind) != std::end(kCollectives);
}

// The op inside which a thread waits; null if it waits outside of ops. Only slices of kind `op` are
// considered: the launch of a graph, an asynchronous op, has the same sequence number as the graph's first
// op.
const Slice* op_around(const Trace& trace, const Slice& wait) {
  if (wait.sequence == kNoSequence) return nullptr;
  const auto key = [](const Slice& slice) { return std::tuple(slice.process, slice.engine, slice.sequence); };
  const auto less = [&](const Slice& a, const Slice& b) { return key(a) < key(b); };
  const auto ops = trace.slices.begin();
  const auto [first, last] = std::equal_range(ops, ops + static_cast<std::ptrdiff_t>(trace.ops), wait, less);
  const auto op = std::find_if(first, last, [](const Slice& slice) { return slice.kind == SliceKind::op; });
  return op == last ? nullptr : &*op;
}

enum class What : std::uint8_t { communicates, computes };

// At `time`, the number of ops of `process` that do `what` changes by `by`.
struct Change {
  std::int64_t time;
  std::uint64_t process;
  What what;
  int by;
};

// Sums the communication times of one process. The changes must come in the order of time.
class ProcessWatch {
 public:
  void change(const Change& change) {
    if (communicating_ > 0) use.time += change.time - last_;
    if (communicating_ > 0 && computing_ > 0) use.hidden += change.time - last_;
    last_ = change.time;
    (change.what == What::communicates ? communicating_ : computing_) += change.by;
  }
  CommunicationUse use;

 private:
  int communicating_ = 0, computing_ = 0;
  std::int64_t last_ = 0;
};

class Changes {
 public:
  explicit Changes(const Trace& trace) : trace_(trace) {
    for (const std::string& name : trace.strings) communicates_.push_back(communicates(name));
    for (const Slice& slice : trace.slices) add(slice);
    std::sort(all_.begin(), all_.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  }
  const std::vector<Change>& all() const { return all_; }

 private:
  // Adds the changes at the start and the end of a slice. An asynchronous op that does not communicate counts
  // as computing only while its function runs.
  void add(const Slice& slice) {
    const bool known = communicates_[slice.name] != 0;
    if (slice.kind == SliceKind::async && known)
      add(slice.start, slice.end(), slice.process, What::communicates, 1);
    if (slice.kind == SliceKind::op || (slice.kind == SliceKind::issue && !known))
      add(slice.start, slice.end(), slice.process, What::computes, 1);
    if (slice.kind == SliceKind::wait) add_wait(slice);
  }
  // Adds the changes for a wait inside an op, which does not compute meanwhile. Other ops that the thread
  // runs during the wait have their own slices.
  void add_wait(const Slice& wait) {
    const Slice* const op = op_around(trace_, wait);
    if (!op) return;
    const std::int64_t start = std::max(wait.start, op->start), end = std::min(wait.end(), op->end());
    if (start < end) add(start, end, wait.process, What::computes, -1);
  }
  void add(std::int64_t start, std::int64_t end, std::uint64_t process, What what, int by) {
    all_.push_back({start, process, what, by});
    all_.push_back({end, process, what, -by});
  }

  const Trace& trace_;
  std::vector<char> communicates_;  // by index of the name in Trace::strings
  std::vector<Change> all_;
};

}  // namespace

std::vector<CommunicationUse> watch_communication(const Trace& trace) {
  std::map<std::uint64_t, ProcessWatch> processes;
  const Changes changes(trace);
  for (const Change& change : changes.all()) {
    ProcessWatch& watch = processes[change.process];
    watch.change(change);
    watch.use.ops += change.what == What::communicates && change.by > 0;
  }
  std::vector<CommunicationUse> result;
  for (auto& [process, watch] : processes) {
    watch.use.process = process;
    if (watch.use.ops > 0) result.push_back(watch.use);
  }
  return result;
}

}  // namespace heddle::tool
