// What Heddle's numbers are meant to be, on a machine whose cache line takes 80 ns to another core and back.
#pragma once

#include <string>

#include "support/support.h"

namespace heddle::bench {

// "target <= 60: met", or empty where there is none. `first` is Heddle's result of the same case.
std::string target_note(const Result& result, const Result& first);

}  // namespace heddle::bench
