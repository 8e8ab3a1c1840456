// Simulates a training step on many ranks, whose gradients become ready one after the other and are reduced
// in that order.
#pragma once

#include <string>
#include <vector>

#include <heddle/cost_model.h>

#include "step.h"

namespace heddle::tool {

// The method of reducing gradients: an algorithm of AllReduce, or parameter servers.
struct Scheme {
  std::string name;
  AllReduce algorithm = AllReduce::ring;
  bool server = false;
};
// The scheme of this name. For an unknown name, throws std::runtime_error with the known names.
Scheme scheme_of(const std::string& name);

struct SimulatedCluster {
  NetworkCost network;
  double bucket = 1 << 20;  // bytes of a bucket of gradients; for schemes with all_reduce only
  int servers = 0;          // number of parameter servers; 0: one per host
};

struct Outcome {
  double step = 0;           // seconds of a step
  double efficiency = 0;     // seconds of a step on one rank, divided by `step`
  double communication = 0;  // seconds in which a gradient was ready but not reduced
  double hidden = 0;  // the share of `communication` during the backward pass; 1 if `communication` is 0
};

// Simulates one step. With all_reduce, buckets of gradients are reduced in order, each when it is ready and
// the previous bucket is reduced. With parameter servers, each gradient is pushed and pulled alone, as in Li
// et al., "Scaling distributed machine learning with the parameter server" (OSDI 2014). A gradient of 4 MB or
// more is split equally over all servers; smaller ones go whole to one server, round robin. Servers have
// their own hosts, with links like those of the workers.
Outcome simulate(const Step& step, const Scheme& scheme, const SimulatedCluster& cluster, int ranks);

}  // namespace heddle::tool
