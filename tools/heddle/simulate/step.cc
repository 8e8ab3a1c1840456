#include "step.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <stdexcept>
#include <string_view>

namespace heddle::tool {
namespace {

constexpr double kNano = 1e-9;
constexpr std::string_view kAllReduce = "all_reduce";

struct Reduction {
  double ready, end, bytes;  // ready, end: in seconds
};

// The number of bytes in an op's name: 4096 for "all_reduce 4096 B"; -1 if the name has no number.
double bytes_of(std::string_view name) {
  if (name.size() < kAllReduce.size() + 4 || !name.ends_with(" B")) return -1;
  name.remove_prefix(kAllReduce.size() + 1);
  name.remove_suffix(2);
  double bytes = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), bytes);
  return error == std::errc() && end == name.data() + name.size() ? bytes : -1;
}

std::vector<Reduction> reductions_of(const Trace& trace, double start) {
  std::vector<Reduction> all;
  std::size_t unknown = 0;
  for (const Slice& slice : trace.slices) {
    const std::string_view name = trace.strings[slice.name];
    if (slice.kind != SliceKind::async || name.substr(0, name.find(' ')) != kAllReduce) continue;
    const double bytes = bytes_of(name);
    if (bytes < 0) ++unknown;
    all.push_back({static_cast<double>(slice.start) * kNano - start,
                   static_cast<double>(slice.end()) * kNano - start, bytes});
  }
  if (all.empty())
    throw std::runtime_error(
        "the trace has no all_reduce: train with KVStore \"allreduce\", one rank is enough");
  if (unknown > 0) {
    throw std::runtime_error(
        std::to_string(unknown) +
        " all_reduce of the trace do not say how much they carry (\"all_reduce 4096 B\"): "
        "it is of an older Heddle");
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ready < b.ready; });
  return all;
}

// The number of reductions in a step: the period with which their sizes repeat. A few reductions outside of
// training may differ. If the sizes do not repeat at least four times, the whole trace is one step.
std::size_t period_of(const std::vector<Reduction>& all, int steps) {
  constexpr double kMostly = 0.9;
  constexpr std::size_t kOften = 4;
  if (static_cast<std::size_t>(std::max(steps, 0)) > all.size()) {
    throw std::runtime_error("simulate: --steps is " + std::to_string(steps) + ", but the trace has only " +
                             std::to_string(all.size()) + " all_reduce, and a step has at least one");
  }
  if (steps > 0) return all.size() / static_cast<std::size_t>(steps);
  for (std::size_t period = 1; kOften * period <= all.size(); ++period) {
    std::size_t same = 0;
    for (std::size_t i = 0; i + period < all.size(); ++i) same += all[i].bytes == all[i + period].bytes;
    if (static_cast<double>(same) >= kMostly * static_cast<double>(all.size() - period)) return period;
  }
  return all.size();
}

// The position of a step's first reduction within the period: the reduction that follows the longest gaps.
// The gap before it is the update and the forward pass, which have no reductions.
std::size_t first_of_a_step(const std::vector<Reduction>& all, std::size_t period) {
  std::vector<double> gap(period);
  for (std::size_t i = 1; i < all.size(); ++i) gap[i % period] += all[i].ready - all[i - 1].end;
  return static_cast<std::size_t>(std::max_element(gap.begin(), gap.end()) - gap.begin());
}

bool alike(const std::vector<Reduction>& all, std::size_t a, std::size_t b, std::size_t count) {
  return std::equal(all.begin() + static_cast<std::ptrdiff_t>(a),
                    all.begin() + static_cast<std::ptrdiff_t>(a + count),
                    all.begin() + static_cast<std::ptrdiff_t>(b),
                    [](const Reduction& x, const Reduction& y) { return x.bytes == y.bytes; });
}

// The step that has the reductions [first, first + count). It begins when the reduction before them ends.
Step step_at(const std::vector<Reduction>& all, std::size_t first, std::size_t count) {
  const double begin = first > 0 ? all[first - 1].end : 0;
  Step step;
  for (std::size_t i = first; i < first + count; ++i)
    step.gradients.push_back({std::max(0.0, all[i].ready - begin), all[i].bytes});
  step.compute = step.gradients.back().ready;
  return step;
}

Step median_step(const std::vector<Reduction>& all, std::size_t period) {
  // All steps are compared with the step in the middle of the trace: its beginning and end may not be
  // training.
  const std::size_t phase = first_of_a_step(all, period);
  const std::size_t middle = (all.size() / 2 - std::min(all.size() / 2, phase)) / period * period + phase;
  const std::size_t pattern = middle + period <= all.size() ? middle : phase;
  std::vector<Step> steps;
  for (std::size_t at = 1; at + period <= all.size();) {
    if (!alike(all, pattern, at, period)) {
      ++at;
      continue;
    }
    steps.push_back(step_at(all, at, period));
    at += period;
  }
  const auto median = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), median, steps.end(),
                   [](const Step& a, const Step& b) { return a.compute < b.compute; });
  return *median;
}

}  // namespace

Step step_of_trace(const Trace& trace, const std::string& name, int steps) {
  std::int64_t first = 0, last = 0;
  for (std::size_t i = 0; i < trace.ops; ++i) {
    const Slice& op = trace.slices[i];
    first = i == 0 ? op.start : std::min(first, op.start);
    last = std::max(last, op.end());
  }
  const std::vector<Reduction> all = reductions_of(trace, static_cast<double>(first) * kNano);
  const std::size_t period = period_of(all, steps);
  Step step;
  if (period < all.size()) {
    step = median_step(all, period);
  } else {
    step = step_at(all, 0, all.size());
    step.after = std::max(0.0, static_cast<double>(last - first) * kNano - all.back().end);
  }
  step.name = name;
  if (!(step.compute + step.after > 0)) throw std::runtime_error(name + ": the step takes no time");
  return step;
}

std::vector<Gradient> in_buckets(const std::vector<Gradient>& gradients, double bucket_bytes) {
  std::vector<Gradient> buckets;
  bool open = false;
  for (const Gradient& gradient : gradients) {
    if (open && buckets.back().bytes + gradient.bytes > bucket_bytes) open = false;
    if (!open) buckets.emplace_back();
    buckets.back().bytes += gradient.bytes;
    buckets.back().ready = gradient.ready;
    open = buckets.back().bytes < bucket_bytes;
  }
  return buckets;
}

}  // namespace heddle::tool
