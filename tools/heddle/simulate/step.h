// A training step on one rank, without communication: when each gradient is computed, and its size.
#pragma once

#include <string>
#include <vector>

#include "../trace/trace_file.h"

namespace heddle::tool {

struct Gradient {
  double ready = 0;  // seconds from the beginning of the step
  double bytes = 0;
};

struct Step {
  std::string name;
  double compute = 0;               // seconds until the end of the backward pass
  double after = 0;                 // seconds from the last reduced gradient to the end of the step
  double images = 0;                // images of a rank in a step; 0: not known
  std::vector<Gradient> gradients;  // gradients in the order of `ready`
};

// A model by name, with 64 images per step: inception3, resnet101 or vgg16. images_per_second: on one rank;
// 0: the published figure. Throws std::runtime_error for another name.
Step step_of_model(const std::string& name, double images_per_second);

// The median step of a trace of one rank. A step ends with its last all_reduce; a gradient is ready when its
// all_reduce could begin. A single step begins with the trace's first op and ends with its last one. If
// `steps` is 0, the number of steps is derived from repeating sizes. Throws std::runtime_error if the trace
// has no all_reduce, one without its size, or fewer than `steps`.
Step step_of_trace(const Trace& trace, const std::string& name, int steps);

// Joins gradients into buckets, as the "allreduce" store does with small ones: a bucket is complete when the
// next gradient does not fit, or it has bucket_bytes. A bucket is ready with its last gradient.
std::vector<Gradient> in_buckets(const std::vector<Gradient>& gradients, double bucket_bytes);

}  // namespace heddle::tool
