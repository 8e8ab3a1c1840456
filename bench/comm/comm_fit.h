// Fits the cost model, by which Heddle chooses the algorithm of an all_reduce, to measured times, and
// compares the model's predictions with them.
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

// The cost model's alpha, beta and gamma for communication within one host; none is negative. Minimises the
// squares of relative errors over all points, so that every size and algorithm has the same weight.
NetworkCost fit_of(const std::vector<CommPoint>& points);

// The seconds that the cost model predicts for the point, divided by the measured seconds.
double ratio_to_model(const NetworkCost& network, const CommPoint& point);

}  // namespace heddle::bench
