// Histograms with the buckets of TensorFlow: limits from 1e-12 to 1e20, each a tenth larger than the one before, and their negatives.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::nn_detail {

struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::int64_t count = 0;           // finite values
  std::vector<double> limits{};     // upper limits, which do not belong to their buckets
  std::vector<double> in_bucket{};  // empty buckets between two others are one
};

// Runs inside an op, with the help of idle workers; the same with any number of them.
Histogram histogram_of(const float* values, std::int64_t size);
Histogram histogram_of(const double* values, std::int64_t size);

}  // namespace heddle::nn_detail
