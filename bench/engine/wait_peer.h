// The interface of the libraries that wait_bench compares: programs that push a little and wait for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace heddle::bench {

// A library with its workers. All calls come from one thread and return the seconds that the work took, or 0
// if the library does not support it. Each checks its result and throws std::runtime_error if it is wrong.
class WaitPeer {
 public:
  virtual ~WaitPeer() = default;
  // `steps` times: eight independent ops, an op that adds up their results, and a wait for that op.
  virtual double step_wait(int steps) = 0;
  // Runs `waits` ops, each of which starts another one and waits for it.
  virtual double nested_wait(int waits) = 0;
  // Recursive Fibonacci: each call is an op that starts two calls and waits for both.
  virtual double fib(int n) = 0;
};

constexpr int kStepOps = 8;

// Number of calls that fib(n) makes.
constexpr long fib_calls(int n) { return n < 2 ? 1 : 1 + fib_calls(n - 1) + fib_calls(n - 2); }
constexpr long fib_of(int n) { return n < 2 ? n : fib_of(n - 1) + fib_of(n - 2); }

std::unique_ptr<WaitPeer> heddle_waits(int workers);
std::unique_ptr<WaitPeer> tbb_waits(int workers);
std::unique_ptr<WaitPeer> tbb_flow_graph_waits(int workers);
// OpenMP tasks compiled by clang with its OpenMP library; null if the build has not found clang or the
// library.
std::unique_ptr<WaitPeer> clang_openmp_waits(int workers);

}  // namespace heddle::bench

// OpenMP tasks built by this file's compiler; the caller owns the result. C linkage, so that dlsym finds it.
extern "C" heddle::bench::WaitPeer* heddle_bench_openmp_waits(int workers);
