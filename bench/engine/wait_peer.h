// What wait_bench asks of a library that runs tasks: programs that push a little and wait for it, again and again.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace heddle::bench {

// A library with its workers. All calls come from one thread and return the seconds that the work took; each checks its result
// and throws std::runtime_error if it is wrong.
class WaitPeer {
 public:
  virtual ~WaitPeer() = default;
  // `steps` times: eight ops on data of their own, an op that adds up what they made, and a wait for that.
  virtual double step_wait(int steps) = 0;
  // `waits` ops, each of which starts one more and waits for it.
  // 0 where the library has no such thing, here and below.
  virtual double nested_wait(int waits) = 0;
  // Fibonacci's numbers: each call is an op that starts two calls and waits for both.
  virtual double fib(int n) = 0;
};

constexpr int kStepOps = 8;

// How many calls fib(n) makes.
constexpr long fib_calls(int n) { return n < 2 ? 1 : 1 + fib_calls(n - 1) + fib_calls(n - 2); }
constexpr long fib_of(int n) { return n < 2 ? n : fib_of(n - 1) + fib_of(n - 2); }

std::unique_ptr<WaitPeer> heddle_waits(int workers);
std::unique_ptr<WaitPeer> tbb_waits(int workers);
std::unique_ptr<WaitPeer> tbb_flow_graph_waits(int workers);
// By clang and its OpenMP library; null where the build has not found them.
std::unique_ptr<WaitPeer> clang_openmp_waits(int workers);

}  // namespace heddle::bench

// OpenMP tasks by the compiler that this was compiled by; the caller owns the result. A plain C name, so that it can be found in a
// library too.
extern "C" heddle::bench::WaitPeer* heddle_bench_openmp_waits(int workers);
