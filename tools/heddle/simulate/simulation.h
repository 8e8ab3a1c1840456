// A training step on many ranks: gradients come as the backward pass makes them, and the wire carries one thing at a time.
#pragma once

#include <string>
#include <vector>

#include <heddle/cost_model.h>

#include "step.h"

namespace heddle::tool {

// What reduces the gradients: one of AllReduce, or parameter servers.
struct Scheme {
  std::string name;
  AllReduce algorithm = AllReduce::ring;
  bool server = false;
};
// Throws std::runtime_error that says what there is.
Scheme scheme_of(const std::string& name);

struct SimulatedCluster {
  NetworkCost network;
  double bucket = 1 << 20;  // bytes; of all_reduce only
  int servers = 0;          // 0: as many as there are hosts
};

struct Outcome {
  double step = 0;           // seconds
  double efficiency = 0;     // time of a step alone / step
  double communication = 0;  // seconds in which something was ready to be reduced, and not yet reduced
  double hidden = 0;  // share of that which lies before the end of the backward pass; 1 if there was none
};

// Buckets are reduced in their order, each when it is there and the one before it is done. With servers, each gradient is
// pushed and pulled by itself, as Li et al., "Scaling distributed machine learning with the parameter server" (OSDI 2014)
// do it: those of 4 MB and more in equal parts on all servers, others whole on one after the other. Servers have hosts of
// their own, with links like the others.
Outcome simulate(const Step& step, const Scheme& scheme, const SimulatedCluster& cluster, int ranks);

}  // namespace heddle::tool
