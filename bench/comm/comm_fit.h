// Fits the cost model that chooses algorithms to measurements, and tells how far off it is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <heddle/cost_model.h>

namespace heddle::bench {

struct CommPoint {
  std::string subject;  // such as "heddle_ring"
  std::size_t bytes = 0;
  double microseconds = 0;
  int ranks = 0;
};

// The algorithm in the subject's name; throws std::runtime_error if it names none.
AllReduce algorithm_of(const CommPoint& point);

// Alpha, beta and gamma of one host, by least squares of relative errors over all points, so that every size
// and algorithm has the same weight. None is negative.
NetworkCost fit_of(const std::vector<CommPoint>& points);

// Predicted seconds / measured seconds.
double ratio_to_model(const NetworkCost& network, const CommPoint& point);

}  // namespace heddle::bench
