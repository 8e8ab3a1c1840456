// Keeps an engine busy with every kind of op, in windows of constant size, and checks that memory does not
// grow.
//
//   engine_soak [--ops N] [--workers W] [--seed S]
//
// Prints operations per second, resident memory, and allocated memory while no op is in flight. After the
// warm-up it compares the medians of the second and the last fifth of the run. It fails if resident memory
// grew by over 1% and 1 MiB, since holes that cannot be returned are some percent of a few MiB; if allocated
// memory grew by over 1% and 64 KiB, since threads cache freed memory; or if a result is wrong.
//
// Resident memory depends on the pusher's largest lead so far. To reach that early, no op of some windows at
// the start runs before all are pushed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <heddle/engine.h>

#include "elsewhere.h"

namespace {

constexpr int kWindow = 4096;  // number of ops pushed between two calls of wait_all
// Number of windows at the start whose ops begin only after the window's last push.
constexpr std::uint64_t kFarAhead = 8;
constexpr std::size_t kLanes = 32;  // number of vars that are used throughout the run

struct Arguments {
  std::uint64_t ops = 10'000'000;
  int workers = 0;
  std::uint64_t seed = 1;
};

// Reads the arguments. Exits if one is invalid, instead of making a long run with defaults.
Arguments parse(int count, char** words) {
  Arguments arguments;
  bool understood = count % 2 == 1;
  for (int i = 1; understood && i + 1 < count; i += 2) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(words[i + 1], &end, 10);
    understood = end != words[i + 1] && *end == '\0';
    if (std::strcmp(words[i], "--ops") == 0) {
      arguments.ops = value;
    } else if (std::strcmp(words[i], "--workers") == 0) {
      arguments.workers = static_cast<int>(value);
    } else if (std::strcmp(words[i], "--seed") == 0) {
      arguments.seed = value;
    } else {
      understood = false;
    }
  }
  if (understood) return arguments;
  std::fprintf(stderr,
               "engine_soak [--ops N] [--workers W] [--seed S]; 10 million ops, a worker a core, seed 1\n");
  std::exit(2);
}

// Resident memory in MiB. Trims the allocator first, so that only memory that it cannot return counts.
double resident_mebibytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// Runs the windows. Each lane has a var and a counter of the ops that have mutated the var; only these ops
// write the counter.
class Soak {
 public:
  Soak(int workers, std::uint64_t seed) : engine_({.workers = workers}), random_(seed) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes_.push_back(engine_.new_var());
      again_.push_back(
          engine_.prepare([this, i] { ++values_[i]; }, {.mutate = {lanes_[i]}, .name = "again"}));
    }
  }

  // Pushes a window of ops and waits for them. Returns false if a counter is wrong.
  bool window(bool far_ahead) {
    std::vector<std::uint64_t> expected = values_;
    may_wait_ = !far_ahead;
    std::atomic<bool> go = !far_ahead;
    for (int i = 0; far_ahead && i < engine_.workers(); ++i) {
      engine_.push([&go] {
        while (!go) std::this_thread::yield();
      });
    }
    for (int i = 0; i < kWindow; ++i) push(expected);
    go = true;
    try {
      engine_.wait_all();
    } catch (const heddle::AggregateError&) {
      ++errors_;  // counts windows with errors: some ops fail on purpose
    }
    if (values_ == expected) return true;
    std::fprintf(stderr, "engine_soak: a lane's count is not what was pushed\n");
    return false;
  }
  std::uint64_t windows_with_errors() const { return errors_; }

 private:
  void push(std::vector<std::uint64_t>& expected) {
    const std::size_t lane = random_() % kLanes, other = random_() % kLanes;
    const heddle::Var &to = lanes_[lane], &from = lanes_[other];
    switch (random_() % 16) {
      case 0:
        return push_chain_with_error();
      case 1:
        return push_and_cancel();
      case 2:
        return engine_.push_async(
            [this](heddle::RunContext&, heddle::Completion completion) {
              ready_without_slot_.take(std::move(completion));
            },
            {.mutate = {engine_.new_var()}, .name = "elsewhere"});
      case 3:
        return push_nested(to, lane, expected);
      case 4:
        if (may_wait_ && random_() % 16 == 0) engine_.wait(to);
        return;
      case 5:
        return engine_.push([] {}, {.read = {to, from}, .name = "read"});
      case 6: {
        ++expected[lane];
        return engine_.push_async(
            [this, lane](heddle::RunContext&, heddle::Completion completion) {
              ++values_[lane];
              completion.done();
            },
            {.read = {from}, .mutate = {to}, .name = "inline"});
      }
      case 7:
      case 8:
      case 9:
        ++expected[lane];
        return engine_.push(again_[lane]);
      default:
        ++expected[lane];
        return engine_.push([this, lane] { ++values_[lane]; },
                            {.read = {from}, .mutate = {to}, .name = "count"});
    }
  }

  // Pushes two ops. The first one's error may poison the vars, whose only handles are local; mostly nothing
  // waits for them.
  void push_chain_with_error() {
    heddle::Var a = engine_.new_var(), b = engine_.new_var();
    if (random_() % 8 == 0) {
      engine_.push([] { throw std::out_of_range("a failure"); }, {.mutate = {a}, .name = "fail"});
    } else {
      engine_.push([data = std::make_shared<int>(1)] { ++*data; }, {.mutate = {a}, .name = "make"});
    }
    engine_.push([] {}, {.read = {a}, .mutate = {b}, .name = "after"});
    if (!may_wait_ || random_() % 8 != 0) return;
    try {
      engine_.wait(b);
    } catch (const std::out_of_range&) {
    }
  }

  // Pushes a prepared op three times. Sometimes a flag then tells the runs that have not begun that they were
  // cancelled.
  void push_and_cancel() {
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    heddle::Var var = engine_.new_var();
    heddle::PreparedOp op = engine_.prepare(
        [cancelled, data = std::vector<int>(100)] {
          if (*cancelled) throw std::runtime_error("cancelled");
        },
        {.mutate = {var}, .name = "cancelled"});
    for (int i = 0; i < 3; ++i) engine_.push(op);
    *cancelled = random_() % 16 == 0;
  }

  // Pushes an op that pushes other ops and sometimes waits for them.
  void push_nested(const heddle::Var& to, std::size_t lane, std::vector<std::uint64_t>& expected) {
    ++expected[lane];
    const bool waits = random_() % 16 == 0;
    engine_.push(
        [this, lane, waits] {
          ++values_[lane];
          heddle::Var inner = engine_.new_var();
          for (int i = 0; i < 3; ++i) engine_.push([] {}, {.mutate = {inner}, .name = "inner"});
          if (waits) engine_.wait(inner);
        },
        {.mutate = {to}, .name = "outer"});
  }

  heddle::Engine engine_;
  // Counts the asynchronous ops. Of 64, one fails, and the Completion of one is destroyed without a call.
  std::uint64_t elsewhere_count_ = 0;
  heddle::test::Elsewhere ready_without_slot_{[this](heddle::Completion& completion) {
    const std::uint64_t count = ++elsewhere_count_;
    if (count % 64 == 0) completion.fail(std::make_exception_ptr(std::runtime_error("elsewhere")));
    // Without effect after fail(); the Completion of number 1 is only destroyed.
    if (count % 64 != 1) completion.done();
  }};
  std::mt19937_64 random_;
  std::vector<heddle::Var> lanes_;
  std::vector<heddle::PreparedOp> again_;
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(kLanes, 0);
  std::uint64_t errors_ = 0;
  bool may_wait_ = true;
};

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

struct Samples {
  std::vector<double> resident, given_out;  // samples of resident and of allocated memory, in MiB
  void take() {
    resident.push_back(resident_mebibytes());
    given_out.push_back(static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd) / (1 << 20));
  }
};

// Whether the memory has grown. Prints its growth from the second fifth of the samples to the last fifth, in
// MiB and in percent.
bool drifted(const char* what, const std::vector<double>& samples, double tolerated) {
  const auto fifth = static_cast<std::ptrdiff_t>(samples.size() / 5);
  const double before = median({samples.begin() + fifth, samples.begin() + 2 * fifth});
  const double drift = median({samples.end() - fifth, samples.end()}) - before;
  std::printf("%s: drift %+.3f MiB, %+.2f%%\n", what, drift, 100 * drift / before);
  return drift > std::max(tolerated, before / 100);
}

}  // namespace

int main(int count, char** words) {
  const Arguments arguments = parse(count, words);
  Soak soak(arguments.workers, arguments.seed);
  const std::uint64_t windows = std::max<std::uint64_t>(50, arguments.ops / kWindow);
  const std::uint64_t interval = windows / 50;
  Samples samples;
  auto last = std::chrono::steady_clock::now();
  for (std::uint64_t i = 1; i <= windows; ++i) {
    if (!soak.window(i <= kFarAhead)) return 1;
    if (i % interval != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(last, now)).count();
    samples.take();
    std::printf("%12llu ops %10.0f ops/s %8.2f MiB resident %8.3f MiB given out\n",
                static_cast<unsigned long long>(i * kWindow),
                static_cast<double>(interval * kWindow) / seconds, samples.resident.back(),
                samples.given_out.back());
    std::fflush(stdout);
  }
  std::printf("windows with errors: %llu of %llu\n",
              static_cast<unsigned long long>(soak.windows_with_errors()),
              static_cast<unsigned long long>(windows));
  const bool resident = drifted("resident", samples.resident, 1),
             given_out = drifted("given out", samples.given_out, 1.0 / 16);
  return resident || given_out ? 1 : 0;
}
