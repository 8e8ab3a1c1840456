// What one rank does in a training step, without the others: when each gradient is there, and how large it is.
#pragma once

#include <string>
#include <vector>

#include "../trace/trace_file.h"

namespace heddle::tool {

struct Gradient {
  double ready = 0;  // seconds after the step's begin
  double bytes = 0;
};

struct Step {
  std::string name;
  double compute = 0;               // seconds until the backward pass is through
  double after = 0;                 // seconds of what comes after the last gradient has been reduced
  double images = 0;                // of a rank in a step; 0: not known
  std::vector<Gradient> gradients;  // in the order in which they are there
};

// inception3, resnet101 or vgg16 with 64 images a step; so many images a second on one rank, 0 for the published figure.
// Throws std::runtime_error that names them for another name.
Step step_of_model(const std::string& name, double images_per_second);

// The median step of a trace of one rank. A step ends when its last all_reduce has; ready is when an all_reduce could
// begin. In a trace with a single step, it begins with the first op and ends with the last one. How many steps there are is
// seen from sizes that repeat, if `steps` is 0. Throws std::runtime_error if the trace has no all_reduce, or one that does
// not say how much it carries, or fewer than `steps`.
Step step_of_trace(const Trace& trace, const std::string& name, int steps);

// Gradients as the store of kvstore/ puts small ones into buckets, here of all sizes: a bucket is full when the next one does not fit, or when it
// has as much as it should; its time is that of its last gradient.
std::vector<Gradient> in_buckets(const std::vector<Gradient>& gradients, double bucket_bytes);

}  // namespace heddle::tool
