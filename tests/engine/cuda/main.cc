// Runs the GPU tests if there is a GPU. Otherwise prints that nothing was run and exits with 77, which CTest
// and tools/gpu-check treat as "skipped".
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <exception>

#include "numbered_cases.h"

REGISTER_LISTENER("numbered cases", 1, heddle::test::NumberedCases);

int main(int argc, char** argv) {
  // A process that is killed has written all its lines.
  if (heddle::test::numbered()) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    if (heddle::gpu_count() == 0) {
      std::puts("no GPU: cudaGetDeviceCount says 0 devices. Nothing was run.");
      return 77;
    }
  } catch (const std::exception& error) {
    std::printf("FAILED before any test: %s\n", error.what());
    return 1;
  }
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (heddle::test::numbered()) std::puts("#end");
  return status;
}
