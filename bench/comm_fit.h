// The model that algorithms are chosen by, fitted to what was measured: time = alpha + beta * bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace heddle::bench {

struct CommPoint {
  std::string subject;
  std::size_t bytes = 0;
  double microseconds = 0;
};

struct CommFit {
  std::string subject;
  double alpha = 0;  // microseconds
  double beta = 0;   // microseconds a byte
  double worst = 0;  // relative error of the point that is farthest off
};

// One for each subject, in the order in which they come. Least squares of relative errors: every size counts the same.
std::vector<CommFit> fits_of(const std::vector<CommPoint>& points);

// For each size the fastest of the subjects whose names begin with `prefix` and are none of `except`.
std::vector<CommPoint> fastest_of(const std::vector<CommPoint>& points, const std::string& prefix,
                                  const std::vector<std::string>& except);

}  // namespace heddle::bench
