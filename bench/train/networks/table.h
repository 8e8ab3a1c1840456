// The tables of `train_bench --networks`.
#pragma once

#include <string>
#include <vector>

#include "support/support.h"

namespace heddle::bench {

struct NetworkOptions {
  Options common;                 // runs, workers, json, quick
  std::vector<std::string> only;  // names of networks; empty: all
  double seconds = 1;             // of a measured run of one subject
  bool torch = true, compile = true;
  std::string python;
  std::string precision = "f32";  // or "bf16"
};

// Trains networks in processes of Heddle and of PyTorch, by turns. Prints tables on stdout and progress on stderr. Returns
// whether all losses agreed. Throws std::runtime_error if a process of Heddle fails.
bool measure_networks(const NetworkOptions& options);

}  // namespace heddle::bench
