// Time of an addition of one-element arrays in C++: the subject "heddle, C++" of dispatch.py.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <heddle/elementwise.h>
#include <heddle/ndarray.h>

using namespace heddle;

// add_bench COUNT: nanoseconds per addition, over COUNT additions and one wait.
int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const int count = argc > 1 ? std::atoi(argv[1]) : 5000;
  const NDArray x = ones({1}), y = ones({1});
  double nanoseconds = 0;
  for (int round = 0; round < 2; ++round) {  // the first round warms up
    const Clock::time_point begin = Clock::now();
    NDArray z;
    for (int i = 0; i < count; ++i) z = x + y;
    z.wait();
    nanoseconds = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / count;
  }
  std::printf("%.1f\n", nanoseconds);
}
