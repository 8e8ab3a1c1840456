#include "problems.h"

std::string problems() { return ""; }

std::uint64_t host_waits() { return 0; }

void reorder(std::uint64_t, bool, int) {}
