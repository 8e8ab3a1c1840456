#include "problems.h"

std::string problems() { return ""; }

std::uint64_t host_waits() { return 0; }
