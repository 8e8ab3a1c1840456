#include "analysis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace heddle::tool {
namespace {

std::vector<std::uint32_t> by_start(const Trace& trace) {
  std::vector<std::uint32_t> order(trace.slices.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(trace.slices[a].start, a) < std::pair(trace.slices[b].start, b);
  });
  return order;
}

// The union of intervals that come by start. An op may run on top of another's stack: time counts once.
class Cover {
 public:
  // The length by which the interval makes the union longer.
  std::int64_t add(std::int64_t start, std::int64_t end) {
    const std::int64_t more = std::max<std::int64_t>(0, end - std::max(start, until_));
    until_ = std::max(until_, end);
    return more;
  }
  std::int64_t until() const { return until_; }

 private:
  std::int64_t until_ = 0;
};

class LaneWatch {
 public:
  explicit LaneWatch(std::uint32_t lane) : use{lane} {}
  LaneUse use;
  // The gap before the slice, of no length if there is none.
  Gap add(std::uint32_t index, const Slice& slice) {
    Gap gap{use.lane, slice.start, slice.start, last_, index};
    if (slice.kind == SliceKind::wait) {
      use.waiting += waiting_.add(slice.start, slice.end());
      return gap;
    }
    if (last_ != kNobody) gap.start = std::min(slice.start, busy_.until());
    if (last_ == kNobody || slice.end() >= busy_.until()) last_ = index;
    use.busy += busy_.add(slice.start, slice.end());
    ++use.ops;
    return gap;
  }

 private:
  Cover busy_, waiting_;
  std::uint32_t last_ = kNobody;  // the slice up to whose end the lane was busy
};

bool longer(const Gap& a, const Gap& b) {
  return std::pair(a.end - a.start, b.start) > std::pair(b.end - b.start, a.start);
}

void keep_longest(std::vector<Gap>& gaps, std::size_t most) {
  const auto end = gaps.begin() + static_cast<std::ptrdiff_t>(std::min(most, gaps.size()));
  std::partial_sort(gaps.begin(), end, gaps.end(), longer);
  gaps.erase(end, gaps.end());
}

// An asynchronous op holds no lane while it is under way, only while its function runs.
void watch_lanes(const Trace& trace, std::size_t most_gaps, Analysis& result) {
  std::vector<LaneWatch> lanes;
  for (std::uint32_t i = 0; i < trace.lanes.size(); ++i) lanes.emplace_back(i);
  Cover somebody;
  std::int64_t covered = 0;
  for (const std::uint32_t index : by_start(trace)) {
    const Slice& slice = trace.slices[index];
    if (slice.is_op()) covered += somebody.add(slice.start, slice.end());
    if (slice.kind == SliceKind::async || slice.kind == SliceKind::gap) continue;
    const Gap gap = lanes[slice.lane].add(index, slice);
    if (gap.end <= gap.start) continue;
    ++result.gap_count;
    result.gaps.push_back(gap);
    if (result.gaps.size() >= 2 * most_gaps + 1024) keep_longest(result.gaps, most_gaps);
  }
  keep_longest(result.gaps, most_gaps);
  result.nobody = result.span() - covered;
  for (const LaneWatch& lane : lanes) {
    if (lane.use.busy > 0 || lane.use.ops > 0 || lane.use.waiting > 0) result.lanes.push_back(lane.use);
  }
}

void count(NameUse& use, const NameUse& more) {
  use.count += more.count;
  use.total += more.total;
  use.longest = std::max(use.longest, more.longest);
}

// Most time first.
template <class Key> std::vector<NameUse> sorted(const std::map<Key, NameUse>& uses) {
  std::vector<NameUse> result;
  for (const auto& [key, use] : uses) result.push_back(use);
  std::stable_sort(result.begin(), result.end(),
                   [](const NameUse& a, const NameUse& b) { return a.total > b.total; });
  return result;
}

void count_names(const Trace& trace, Analysis& result) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, NameUse> lines;
  for (std::size_t i = 0; i < trace.ops; ++i) {
    const Slice& op = trace.slices[i];
    NameUse& use = lines.try_emplace({op.name, op.where}, NameUse{op.name, op.where}).first->second;
    count(use, {op.name, op.where, 1, static_cast<double>(op.duration), op.duration});
    result.total += static_cast<double>(op.duration);
  }
  std::map<std::uint32_t, NameUse> names;
  for (const auto& [key, use] : lines)
    count(names.try_emplace(use.name, NameUse{use.name, 0}).first->second, use);
  result.names = sorted(names);
  result.lines = sorted(lines);
}

// With how much it carries behind it, or without.
bool is_collective(const std::string& name) {
  const std::string_view kind = std::string_view(name).substr(0, name.find(' '));
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                         "all_to_all", "send",           "recv",       "barrier"};
  return std::find(std::begin(kNames), std::end(kNames), kind) != std::end(kNames);
}

// How long collectives were under way beside ops, from starts and ends that come in the order of time.
class CommunicationWatch {
 public:
  void change(std::int64_t time, bool collective, int by) {
    if (collectives_ > 0) use.time += time - last_;
    if (collectives_ > 0 && ops_ > 0) use.hidden += time - last_;
    last_ = time;
    (collective ? collectives_ : ops_) += by;
  }
  CommunicationUse use;

 private:
  int collectives_ = 0, ops_ = 0;
  std::int64_t last_ = 0;
};

struct Change {
  std::int64_t time;
  std::uint64_t process;
  bool collective;
  int by;
};

// Of asynchronous ops, which hold no worker, collectives count as communication and the others not at all; a thread that
// waits does not work.
void watch_communication(const Trace& trace, Analysis& result) {
  std::vector<char> collective;
  for (const std::string& name : trace.strings) collective.push_back(is_collective(name));
  std::map<std::uint64_t, CommunicationWatch> processes;
  std::vector<Change> changes;
  for (const Slice& slice : trace.slices) {
    const bool is_async = slice.kind == SliceKind::async, known = collective[slice.name] != 0;
    const bool runs = slice.kind == SliceKind::op || (slice.kind == SliceKind::issue && !known);
    if (!(is_async && known) && !runs) continue;
    changes.push_back({slice.start, slice.process, is_async, 1});
    changes.push_back({slice.end(), slice.process, is_async, -1});
    if (is_async) ++processes[slice.process].use.ops;
  }
  if (processes.empty()) return;
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  for (const Change& change : changes) {
    const auto place = processes.find(change.process);
    if (place != processes.end()) place->second.change(change.time, change.collective, change.by);
  }
  for (auto& [process, watch] : processes) {
    watch.use.process = process;
    result.communication.push_back(watch.use);
  }
}

// Ops lie in push order, so that the longest chain that ends in each is known when its followers are looked at.
CriticalPath longest_chain(const Trace& trace) {
  std::vector<double> length(trace.ops);
  std::vector<std::uint32_t> before(trace.ops, kNobody);
  auto dependency = trace.dependencies.begin();
  std::uint32_t last = kNobody;
  for (std::uint32_t i = 0; i < trace.ops; ++i) {
    double longest = 0;
    for (; dependency != trace.dependencies.end() && dependency->to == i; ++dependency) {
      if (before[i] != kNobody && length[dependency->from] <= longest) continue;
      before[i] = dependency->from;
      longest = length[dependency->from];
    }
    length[i] = longest + static_cast<double>(trace.slices[i].duration);
    if (last == kNobody || length[i] > length[last]) last = i;
  }
  CriticalPath path;
  for (std::uint32_t i = last; i != kNobody; i = before[i]) path.ops.push_back(i);
  std::reverse(path.ops.begin(), path.ops.end());
  if (last != kNobody) path.inside = length[last];
  for (std::size_t i = 1; i < path.ops.size(); ++i) {
    const Slice &from = trace.slices[path.ops[i - 1]], &to = trace.slices[path.ops[i]];
    path.between += static_cast<double>(std::max<std::int64_t>(0, to.start - from.end()));
  }
  return path;
}

}  // namespace

Analysis analyse(const Trace& trace, std::size_t most_gaps) {
  Analysis result;
  result.ops = trace.ops;
  for (std::size_t i = 0; i < trace.ops; ++i) {
    const Slice& op = trace.slices[i];
    result.start = i == 0 ? op.start : std::min(result.start, op.start);
    result.end = std::max(result.end, op.end());
  }
  watch_lanes(trace, most_gaps, result);
  count_names(trace, result);
  result.path = longest_chain(trace);
  watch_communication(trace, result);
  return result;
}

}  // namespace heddle::tool
