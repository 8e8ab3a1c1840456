#include "analysis.h"

#include <algorithm>
#include <map>
#include <utility>

#include "communication.h"

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

// Measures the union of time intervals, so that the time of nested ops counts once. The intervals must be
// added in the order of their start.
class Cover {
 public:
  // Adds an interval. Returns by how much the union becomes longer.
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
  // Adds a slice of the lane. Returns the gap before the slice, of length 0 if there is no gap.
  Gap add(std::uint32_t index, const Slice& slice) {
    Gap gap{use.lane, slice.start, slice.start, last_, index};
    if (slice.kind == SliceKind::wait || slice.kind == SliceKind::blocked) {
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
  std::uint32_t last_ = kNobody;  // of the slices added so far, the index of the one that ends last
};

bool longer(const Gap& a, const Gap& b) {
  return std::pair(a.end - a.start, b.start) > std::pair(b.end - b.start, a.start);
}

void keep_longest(std::vector<Gap>& gaps, std::size_t most) {
  const auto end = gaps.begin() + static_cast<std::ptrdiff_t>(std::min(most, gaps.size()));
  std::partial_sort(gaps.begin(), end, gaps.end(), longer);
  gaps.erase(end, gaps.end());
}

// Computes the lanes' use and the gaps. An asynchronous op counts on a lane only while its function runs.
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

void count(const Trace& trace, NameUse& use, const NameUse& more) {
  if (use.first == kNobody || trace.slices[more.first].start < trace.slices[use.first].start)
    use.first = more.first;
  use.count += more.count;
  use.total += more.total;
  use.longest = std::max(use.longest, more.longest);
}

// By how much the first op of a name was longer than the mean of the later ones; 0 unless it was the longest
// and far longer than the mean. A first call may load code, allocate memory and make tables.
double cost_of_first(const Trace& trace, const NameUse& use) {
  constexpr double kFarLonger = 5, kWorthSaying = 10e3;
  if (use.count < 3) return 0;
  const std::int64_t first = trace.slices[use.first].duration;
  const double mean = (use.total - static_cast<double>(first)) / static_cast<double>(use.count - 1);
  const double more = static_cast<double>(first) - mean;
  return use.longest == first && more > kWorthSaying && static_cast<double>(first) > kFarLonger * mean ? more
                                                                                                       : 0;
}

// The values of the map, sorted by total time, the longest first.
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
    count(
        trace, use,
        {op.name, op.where, 1, static_cast<double>(op.duration), op.duration, static_cast<std::uint32_t>(i)});
    result.total += static_cast<double>(op.duration);
  }
  std::map<std::uint32_t, NameUse> names;
  for (const auto& [key, use] : lines)
    count(trace, names.try_emplace(use.name, NameUse{use.name, 0}).first->second, use);
  for (auto& [name, use] : names) {
    const double more = cost_of_first(trace, use);
    use.costly_first = more > 0;
    result.first_calls += more;
  }
  result.names = sorted(names);
  result.lines = sorted(lines);
}

// Finds the critical path. The ops are visited in push order, so when an op is visited, the longest chains to
// the ops before it are known.
class LongestChain {
 public:
  explicit LongestChain(const Trace& trace)
      : trace_(trace), length_(trace.slices.size()), before_(trace.slices.size(), kNobody) {}
  CriticalPath find();

 private:
  void extend(std::uint32_t to, std::uint32_t from);
  const BlockedPush* blocked_before(std::uint32_t op);
  void add(const BlockedPush& push);

  const Trace& trace_;
  std::vector<double> length_;         // for each slice the length of the longest chain that ends with it
  std::vector<std::uint32_t> before_;  // for each slice its predecessor in that chain
  std::size_t next_blocked_ = 0;
};

void LongestChain::extend(std::uint32_t to, std::uint32_t from) {
  if (before_[to] != kNobody && length_[from] <= length_[before_[to]]) return;
  before_[to] = from;
}

// Computes the longest chain that ends with a blocked push. Of the push's time, only the part after the end
// of the op that made room counts.
void LongestChain::add(const BlockedPush& blocked) {
  const Slice& push = trace_.slices[blocked.push];
  std::int64_t start = push.start;
  if (blocked.from != kNobody) {
    before_[blocked.push] = blocked.from;
    length_[blocked.push] = length_[blocked.from];
    start = std::max(start, trace_.slices[blocked.from].end());
  }
  length_[blocked.push] += static_cast<double>(std::max<std::int64_t>(0, push.end() - start));
}

// The last blocked push at or before the push of `op`, which delayed it: pushes are served in order. Null if
// no push delayed `op`.
const BlockedPush* LongestChain::blocked_before(std::uint32_t op) {
  for (; next_blocked_ < trace_.blocked.size() && trace_.blocked[next_blocked_].to <= op; ++next_blocked_)
    add(trace_.blocked[next_blocked_]);
  if (next_blocked_ == 0) return nullptr;
  const BlockedPush& last = trace_.blocked[next_blocked_ - 1];
  const Slice &pushed = trace_.slices[last.to], &slice = trace_.slices[op];
  if (pushed.process != slice.process || pushed.engine != slice.engine) return nullptr;
  return last.to == op || trace_.slices[last.push].end() <= slice.start ? &last : nullptr;
}

CriticalPath LongestChain::find() {
  auto dependency = trace_.dependencies.begin();
  std::uint32_t last = kNobody;
  for (std::uint32_t i = 0; i < trace_.ops; ++i) {
    for (; dependency != trace_.dependencies.end() && dependency->to == i; ++dependency)
      extend(i, dependency->from);
    if (const BlockedPush* push = blocked_before(i)) extend(i, push->push);
    length_[i] =
        (before_[i] == kNobody ? 0 : length_[before_[i]]) + static_cast<double>(trace_.slices[i].duration);
    if (last == kNobody || length_[i] > length_[last]) last = i;
  }
  CriticalPath path;
  std::map<std::uint32_t, NameUse> names;
  for (std::uint32_t i = last; i != kNobody; i = before_[i]) {
    path.ops.push_back(i);
    const std::uint32_t name = trace_.slices[i].name;
    const double time = length_[i] - (before_[i] == kNobody ? 0 : length_[before_[i]]);
    count(trace_, names.try_emplace(name, NameUse{name, 0}).first->second,
          {name, 0, 1, time, static_cast<std::int64_t>(time), i});
  }
  path.names = sorted(names);
  std::reverse(path.ops.begin(), path.ops.end());
  if (last != kNobody) path.inside = length_[last];
  for (std::size_t i = 0; i < path.ops.size(); ++i) {
    const Slice& to = trace_.slices[path.ops[i]];
    path.blocked += to.kind == SliceKind::blocked;
    if (i == 0) continue;
    const std::int64_t pause = to.start - trace_.slices[path.ops[i - 1]].end();
    path.between += static_cast<double>(std::max<std::int64_t>(0, pause));
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
  result.path = LongestChain(trace).find();
  result.communication = watch_communication(trace);
  return result;
}

}  // namespace heddle::tool
