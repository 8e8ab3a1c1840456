// The model that algorithms are chosen by, fitted to what was measured, and how far it is off.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <heddle/cost_model.h>

namespace heddle::bench {

struct CommPoint {
  std::string subject;  // "heddle_ring" ...
  std::size_t bytes = 0;
  double microseconds = 0;
  int ranks = 0;
};

// What the subjects' names say they run; throws std::runtime_error if they do not.
AllReduce algorithm_of(const CommPoint& point);

// Alpha, beta and gamma of the ranks of one host, by least squares of relative errors over all points: every size and
// algorithm counts the same. None is below zero.
NetworkCost fit_of(const std::vector<CommPoint>& points);

// Seconds that the model says / seconds that were measured.
double ratio_to_model(const NetworkCost& network, const CommPoint& point);

}  // namespace heddle::bench
