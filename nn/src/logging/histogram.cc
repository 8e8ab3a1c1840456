#include "logging/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <heddle/parallel.h>

namespace heddle::nn_detail {

namespace {

constexpr std::int64_t kGrain = 65536;
constexpr int kExponents = 2048;  // of doubles

class Buckets {
 public:
  Buckets() {
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive_.push_back(limit);
    positive_.push_back(std::numeric_limits<double>::max());
    for (auto one = positive_.rbegin(); one != positive_.rend(); ++one) limits_.push_back(-*one);
    limits_.push_back(0);
    limits_.insert(limits_.end(), positive_.begin(), positive_.end());
    for (int e = 0; e < kExponents; ++e) {
      const double least = e == 0 ? 0 : std::ldexp(1.0, e - 1023);
      const auto first = std::upper_bound(positive_.begin(), positive_.end(), least) - positive_.begin();
      first_[static_cast<std::size_t>(e)] = static_cast<std::int16_t>(first);
    }
  }
  const std::vector<double>& limits() const { return limits_; }

  // The first limit above a finite value, or the last one.
  std::size_t of(double value) const {
    const double size = std::abs(value);
    const std::size_t exponent = std::bit_cast<std::uint64_t>(size) >> 52, last = positive_.size() - 1;
    auto k = static_cast<std::size_t>(first_[exponent]);
    if (value >= 0) {
      while (k < last && positive_[k] <= size) ++k;
      return positive_.size() + 1 + std::min(k, last);
    }
    // Limit number j is the negative of positive_[last - j]: the first one above the value is that of the last one below its size.
    k = k > 0 ? k - 1 : 0;
    while (k <= last && positive_[k] < size) ++k;
    return positive_.size() - k;
  }

 private:
  std::vector<double> positive_, limits_;
  std::array<std::int16_t, kExponents> first_{};  // the first limit above 2^(e - 1023)
};

struct Partial {
  std::vector<std::int64_t> counts;
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0, sum_squares = 0;
};

template <class T> void add(const Buckets& buckets, const T* values, std::int64_t size, Partial& to) {
  to.counts.resize(buckets.limits().size());
  for (std::int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) continue;
    ++to.counts[buckets.of(value)];
    to.min = std::min(to.min, value);
    to.max = std::max(to.max, value);
    to.sum += value;
    to.sum_squares += value * value;
  }
}

// As TensorFlow writes it: of empty buckets in a row the last one.
void list_buckets(const std::vector<double>& limits, const std::vector<std::int64_t>& counts,
                  Histogram& result) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0)
      while (i + 1 < counts.size() && counts[i + 1] == 0) ++i;
    if (counts[i] == 0 && i + 1 == counts.size() && !result.limits.empty()) break;
    result.limits.push_back(limits[i]);
    result.in_bucket.push_back(static_cast<double>(counts[i]));
  }
}

template <class T> Histogram counted(const T* values, std::int64_t size) {
  static const Buckets& buckets = *new Buckets;
  std::vector<Partial> parts(static_cast<std::size_t>((size + kGrain - 1) / kGrain));
  parallel_for(size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    add(buckets, values + begin, end - begin, parts[static_cast<std::size_t>(begin / kGrain)]);
  });
  std::vector<std::int64_t> counts(buckets.limits().size());
  Partial all;
  for (const Partial& part : parts) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += part.counts[i];
    all.min = std::min(all.min, part.min);
    all.max = std::max(all.max, part.max);
    all.sum += part.sum;
    all.sum_squares += part.sum_squares;
  }
  Histogram result;
  for (const std::int64_t one : counts) result.count += one;
  if (result.count > 0) {
    result.min = all.min;
    result.max = all.max;
    result.sum = all.sum;
    result.sum_squares = all.sum_squares;
  }
  list_buckets(buckets.limits(), counts, result);
  return result;
}

}  // namespace

Histogram histogram_of(const float* values, std::int64_t size) { return counted(values, size); }
Histogram histogram_of(const double* values, std::int64_t size) { return counted(values, size); }

}  // namespace heddle::nn_detail
