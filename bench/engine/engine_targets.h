// Targets for Heddle's numbers, on a machine where a cache line takes 80 ns to another core and back.
#pragma once

#include <string>

#include "support/support.h"

namespace heddle::bench {

// The note for `result`, such as "target <= 60: met"; empty if its case has no target. `first` is Heddle's
// result of the same case.
std::string target_note(const Result& result, const Result& first);

}  // namespace heddle::bench
