// Families of operators at four sizes, Heddle beside PyTorch, as Markdown tables of ratios.
#pragma once

#include <string>

#include "support/support.h"

namespace heddle::bench {

// Runs the families whose name, or whose operator's name, contains options.filter, for each number of
// workers. If `python` cannot import torch, only Heddle's times are printed.
void run_families(const Options& options, const std::string& python);

}  // namespace heddle::bench
