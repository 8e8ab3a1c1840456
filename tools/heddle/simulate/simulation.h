// Simulates a training step on many ranks. Gradients are computed, and reduced, one after the other.
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
// Throws std::runtime_error naming the known schemes.
Scheme scheme_of(const std::string& name);

struct SimulatedCluster {
  NetworkCost network;
  double bucket = 1 << 20;  // bytes of a bucket; for all_reduce only
  int servers = 0;          // number of servers; 0: one per host
};

struct Outcome {
  double step = 0;           // seconds of a step
  double efficiency = 0;     // time of a step on one rank / step
  double communication = 0;  // seconds in which a gradient was ready but not reduced
  double hidden = 0;  // the share of `communication` before the end of the backward pass; 1 if there is none
};

// Buckets are reduced in order, each when it is ready and the previous one is reduced. With servers, each
// gradient is pushed and pulled alone, as in Li et al., "Scaling distributed machine learning with the
// parameter server" (OSDI 2014): gradients of 4 MB and more in equal parts on all servers, others whole,
// round robin. Servers have their own hosts, with links like those of workers.
Outcome simulate(const Step& step, const Scheme& scheme, const SimulatedCluster& cluster, int ranks);

}  // namespace heddle::tool
