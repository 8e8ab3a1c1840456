// wait_bench as OpenMP tasks. Calls no function of the OpenMP library by name, so that two compilers'
// libraries can be in one process.
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "engine/wait_peer.h"

namespace heddle::bench {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

long call(int n) {
  if (n < 2) return n;
  long one = 0, two = 0;
#pragma omp task shared(one)
  one = call(n - 1);
#pragma omp task shared(two)
  two = call(n - 2);
#pragma omp taskwait
  return one + two;
}

class OpenMpWaits : public WaitPeer {
 public:
  explicit OpenMpWaits(int workers) : workers_(workers) {}

  double step_wait(int steps) override {
    long made[kStepOps] = {};
    long sum = 0;
    double seconds = 0;
#pragma omp parallel num_threads(workers_)
#pragma omp single
    {
      const double start = seconds_now();
      for (int step = 0; step < steps; ++step) {
        for (long& part : made) {
          long* cell = &part;
#pragma omp task firstprivate(cell)
          ++*cell;
        }
#pragma omp taskwait
        for (long cell : made) sum += cell;
      }
      seconds = seconds_now() - start;
    }
    const long n = steps;
    if (sum != kStepOps * (n * (n + 1) / 2)) throw std::runtime_error("OpenMP: step_wait is wrong");
    return seconds;
  }

  double nested_wait(int waits) override {
    std::atomic<long> count{0};
    std::atomic<long>* counter = &count;
    double seconds = 0;
#pragma omp parallel num_threads(workers_)
#pragma omp single
    {
      const double start = seconds_now();
      for (int i = 0; i < waits; ++i) {
#pragma omp task firstprivate(counter)
        {
#pragma omp task firstprivate(counter)
          counter->fetch_add(1, std::memory_order_relaxed);
#pragma omp taskwait
        }
      }
#pragma omp taskwait
      seconds = seconds_now() - start;
    }
    if (count != waits) throw std::runtime_error("OpenMP: nested_wait is wrong");
    return seconds;
  }

  double fib(int n) override {
    long result = 0;
    double seconds = 0;
#pragma omp parallel num_threads(workers_)
#pragma omp single
    {
      const double start = seconds_now();
      result = call(n);
      seconds = seconds_now() - start;
    }
    if (result != fib_of(n)) throw std::runtime_error("OpenMP: fib is wrong");
    return seconds;
  }

 private:
  int workers_;
};

}  // namespace

}  // namespace heddle::bench

extern "C" heddle::bench::WaitPeer* heddle_bench_openmp_waits(int workers) {
  return new heddle::bench::OpenMpWaits(workers);
}
