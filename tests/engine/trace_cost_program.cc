// Measures what tracing an op costs: threads only run ops of a given length, by turns with and without
// recording.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <time.h>
#include <vector>

#include "trace/trace.h"

namespace {

using namespace heddle::trace;

// A chain of multiplications. Reading the clock before and after it does not change the time that it takes.
std::uint64_t work(std::uint64_t steps) {
  std::uint64_t value = steps;
  for (std::uint64_t i = 0; i < steps; ++i) asm volatile("imul %0, %0" : "+r"(value));
  return value;
}

std::uint64_t cpu_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Runs ops and records them as the engine's core does: the time when an op ends is also when the next op
// starts. Returns the CPU time in nanoseconds.
std::uint64_t run_ops(int ops, std::uint64_t steps) {
  const std::uint64_t began = cpu_nanoseconds();
  const std::uint32_t lane = this_thread_lane();
  Tick last = 0;
  for (int i = 0; i < ops; ++i) {
    const Tick start = on() ? (last ? last : now()) : 0;
    work(steps);
    if (!start) continue;
    last = now();
    op_ran(lane, {"op", std::source_location::current(), 1, static_cast<std::uint64_t>(i), kNone}, start,
           last);
  }
  return cpu_nanoseconds() - began;
}

// CPU nanoseconds for each op, of the slowest thread.
double measure(int threads, int ops, std::uint64_t steps) {
  std::vector<std::uint64_t> took(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (std::uint64_t& mine : took) running.emplace_back([&mine, ops, steps] { mine = run_ops(ops, steps); });
  for (std::thread& thread : running) thread.join();
  return static_cast<double>(*std::max_element(took.begin(), took.end())) / ops;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(int threads, int ops, std::uint64_t steps) {
  const std::string path = std::filesystem::temp_directory_path() / "trace_cost.%p.json";
  std::vector<double> off, on, more;
  TraceSummary summary;
  measure(threads, ops, steps);
  for (int turn = 0; turn < 9; ++turn) {
    off.push_back(measure(threads, ops, steps));
    start(path);
    on.push_back(measure(threads, ops, steps));
    summary = stop();
    more.push_back(on.back() - off.back());
  }
  std::filesystem::remove(summary.path);
  std::printf(
      "%d threads, ops of %5llu steps: off %7.1f ns, on %7.1f ns, more %5.1f ns (%.1f %%); last: %llu "
      "written, "
      "%llu dropped, %llu bytes an op\n",
      threads, static_cast<unsigned long long>(steps), median(off), median(on), median(more),
      100 * median(more) / median(off), static_cast<unsigned long long>(summary.records),
      static_cast<unsigned long long>(summary.dropped),
      static_cast<unsigned long long>(summary.records ? summary.bytes / summary.records : 0));
}

}  // namespace

int main(int argc, char** argv) {
  const int ops = argc > 1 ? std::atoi(argv[1]) : 300'000;
  for (const int threads : {1, 2}) {
    for (const std::uint64_t nanoseconds : {0, 1000, 10'000})
      compare(threads, nanoseconds > 1000 ? ops / 10 : ops, nanoseconds);
  }
}
