#include "problems.h"

bool is_emulated() { return false; }

std::string problems() { return ""; }

std::uint64_t host_waits() { return 0; }

std::uint64_t replays() {
  static std::uint64_t asked = 0;
  return ++asked;
}

void reorder(std::uint64_t, bool, int) {}
