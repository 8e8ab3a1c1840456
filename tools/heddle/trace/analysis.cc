#include "analysis.h"

#include <algorithm>

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

void count_names(const Trace& trace, Analysis& result) {
  std::vector<NameUse> names(trace.strings.size());
  for (std::uint32_t i = 0; i < names.size(); ++i) names[i].name = i;
  for (std::size_t i = 0; i < trace.ops; ++i) {
    const Slice& op = trace.slices[i];
    NameUse& use = names[op.name];
    ++use.count;
    use.total += static_cast<double>(op.duration);
    use.longest = std::max(use.longest, op.duration);
    result.total += static_cast<double>(op.duration);
  }
  std::erase_if(names, [](const NameUse& use) { return use.count == 0; });
  std::sort(names.begin(), names.end(), [](const NameUse& a, const NameUse& b) {
    return std::pair(-a.total, a.name) < std::pair(-b.total, b.name);
  });
  result.names = std::move(names);
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
  return result;
}

}  // namespace heddle::tool
