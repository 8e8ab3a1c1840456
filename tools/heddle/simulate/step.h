// A training step on one rank, without communication: its times, and when each gradient is computed.
#pragma once

#include <string>
#include <vector>

#include "../trace/trace_file.h"

namespace heddle::tool {

struct Gradient {
  double ready = 0;  // when the gradient is computed, in seconds from the beginning of the step
  double bytes = 0;
};

struct Step {
  std::string name;
  double compute = 0;               // seconds from the beginning to the end of the backward pass
  double after = 0;                 // seconds from the last gradient's reduction to the end of the step
  double images = 0;                // images that a rank processes in a step; 0: not known
  std::vector<Gradient> gradients;  // all gradients, in the order of `ready`
};

// The step of a known model: inception3, resnet101 or vgg16 with 64 images, hepcnn with 8. `images_per_second` is the
// speed of one rank; 0: the published figure. Throws std::runtime_error for another name.
Step step_of_model(const std::string& name, double images_per_second);

// The median step of a trace of one rank. A step ends with its last all_reduce; a gradient is ready when its
// all_reduce could begin. A trace of a single step is that step, from its first op to its last. `steps` is
// the number of steps in the trace; 0: it is derived from the sizes, which repeat. Throws std::runtime_error
// if the trace has no all_reduce, an all_reduce without its size, or fewer all_reduces than `steps`.
Step step_of_trace(const Trace& trace, const std::string& name, int steps);

// Joins gradients into buckets, as the "allreduce" store does with small gradients. A bucket is complete when
// it has bucket_bytes, or the next gradient does not fit in. It is ready when its last gradient is ready.
std::vector<Gradient> in_buckets(const std::vector<Gradient>& gradients, double bucket_bytes);

}  // namespace heddle::tool
