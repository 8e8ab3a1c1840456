#include <cstdlib>

#include <doctest/doctest.h>

#include "emulated_gpu.h"
#include "samples/seeds.h"

namespace heddle::test {

// HEDDLE_EMULATED_SEEDS says how many seeds there are.
void for_each_seed(const std::function<void()>& body) {
  const char* text = std::getenv("HEDDLE_EMULATED_SEEDS");
  const int seeds = text ? std::atoi(text) : 1;
  const emulated_gpu::Settings before = emulated_gpu::settings();
  for (int seed = 0; seed <= seeds; ++seed) {
    for (const bool stepped : {false, true}) {
      CAPTURE(seed);
      CAPTURE(stepped);
      emulated_gpu::Settings settings = before;
      settings.seed = static_cast<std::uint64_t>(seed);
      settings.stepped = stepped;
      settings.delay = seed == 0 ? 0 : 10;
      settings.host_threads = stepped ? 1 : 1 + seed % 2;
      emulated_gpu::configure(settings);
      body();
      CHECK(emulated_gpu::take_problems().empty());
    }
  }
  emulated_gpu::configure(before);
}

}  // namespace heddle::test
