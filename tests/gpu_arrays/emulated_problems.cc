#include <emulated_gpu.h>

#include "problems.h"

bool is_emulated() { return true; }

std::string problems() {
  heddle::emulated_gpu::check_memory();
  std::string all;
  for (const std::string& one : heddle::emulated_gpu::take_problems()) all += one + "\n";
  return all;
}

std::uint64_t host_waits() { return heddle::emulated_gpu::host_waits(); }

std::uint64_t replays() { return heddle::emulated_gpu::graph_launches(); }

void reorder(std::uint64_t seed, bool stepped, int delay) {
  heddle::emulated_gpu::Settings settings = heddle::emulated_gpu::settings();
  settings.seed = seed;
  settings.stepped = stepped;
  settings.delay = delay;
  heddle::emulated_gpu::configure(settings);
}
