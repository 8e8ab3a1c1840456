#include "support/support.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "command_line.h"

namespace heddle::bench {

namespace {

// Pause between runs: libgomp's threads spin for some milliseconds after a parallel region, and would take a
// core from the next subject.
constexpr auto kSettle = std::chrono::milliseconds(10);

Result summarize(const Case& the_case, const Subject& subject, const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {the_case.bench,
          the_case.name,
          subject.name,
          the_case.workers,
          the_case.unit,
          median(values),
          *least,
          *most,
          static_cast<int>(values.size()),
          values};
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void pin_this_thread(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Bounces a cache line between two cores: the thread on the first core stores odd numbers, the thread on the
// second answers each with the next even number.
double ping_pong(int first_core, int second_core, int rounds) {
  alignas(64) std::atomic<int> ball{0};
  std::thread answering([&] {
    pin_this_thread(second_core);
    for (int i = 0; i < rounds; ++i) {
      while (ball.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      ball.store(2 * i + 2, std::memory_order_release);
    }
  });
  const int warm_up = rounds / 10;
  double seconds = 0;
  std::thread asking([&] {
    pin_this_thread(first_core);
    double start = 0;
    for (int i = 0; i < rounds; ++i) {
      if (i == warm_up) start = now();
      ball.store(2 * i + 1, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    seconds = now() - start;
  });
  asking.join();
  answering.join();
  return seconds * 1e9 / (rounds - warm_up);
}

}  // namespace

void add_options(command_line::Command& app, Options& options) {
  add_run_options(app, options);
  app.add_option("--workers", options.workers, "threads of every subject; 1,2,4 for one after the other")
      .delimiter(',')
      .show_default()
      .range(1, 1024);
}

void add_run_options(command_line::Command& app, Options& options) {
  app.add_option("--filter", options.filter, "only cases whose name contains this");
  app.add_option("--runs", options.runs, "measured runs of each subject").show_default().range(1, 1000);
  app.add_flag("--quick", options.quick, "less work: under 30 seconds");
  app.add_option("--json", options.json, "append one JSON object a line to this file");
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_ratio(const Result& a, const Result& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i)
    ratios.push_back(a.values[i] / b.values[i]);
  return median(std::move(ratios));
}

std::vector<Result> measure(const Case& the_case, const Options& options) {
  std::vector<std::vector<double>> values(the_case.subjects.size());
  for (int run = -1; run < options.runs; ++run) {
    for (std::size_t i = 0; i < the_case.subjects.size(); ++i) {
      std::this_thread::sleep_for(kSettle);
      const double value = the_case.subjects[i].run();
      if (run >= 0) values[i].push_back(value);
    }
  }
  std::vector<Result> results;
  for (std::size_t i = 0; i < the_case.subjects.size(); ++i) {
    results.push_back(summarize(the_case, the_case.subjects[i], values[i]));
  }
  return results;
}

void print_table(const std::vector<Result>& results, const std::function<std::string(const Result&)>& note) {
  for (const Result& result : results) {
    const bool first = &result == &results.front();
    std::printf("%-18s %-16s %12.1f %-8s %10.1f .. %-10.1f", first ? result.case_name.c_str() : "",
                result.subject.c_str(), result.median, result.unit.c_str(), result.min, result.max);
    if (first) {
      std::printf(" %12s", "");
    } else {
      std::printf(" %11.2fx", results.front().median / result.median);
    }
    std::printf("  %s\n", note ? note(result).c_str() : "");
  }
  std::fflush(stdout);
}

void append_json(const std::vector<Result>& results, const Options& options) {
  if (options.json.empty()) return;
  std::ofstream file(options.json, std::ios::app);
  for (const Result& result : results) {
    file << nlohmann::ordered_json{{"bench", result.bench},     {"case", result.case_name},
                                   {"subject", result.subject}, {"workers", result.workers},
                                   {"unit", result.unit},       {"median", result.median},
                                   {"min", result.min},         {"max", result.max},
                                   {"runs", result.runs},       {"values", result.values}}
                .dump()
         << '\n';
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cache_line_round_trip() {
  const std::vector<int> cores = allowed_cores();
  if (cores.size() < 2) return 0;
  double best = ping_pong(cores[0], cores[1], 20000);
  for (int i = 0; i < 6; ++i) best = std::min(best, ping_pong(cores[0], cores[1], 20000));
  return best;
}

CoreLimit::CoreLimit(int first, int count) {
  sched_getaffinity(0, sizeof previous_, &previous_);
  const int begin = first % CPU_COUNT(&previous_);
  cpu_set_t limited;
  CPU_ZERO(&limited);
  for (int core = 0, seen = 0; core < CPU_SETSIZE && CPU_COUNT(&limited) < count; ++core) {
    if (CPU_ISSET(core, &previous_) && seen++ >= begin) CPU_SET(core, &limited);
  }
  if (sched_setaffinity(0, sizeof limited, &limited) != 0)
    throw std::runtime_error("cannot stay on " + std::to_string(count) + " cores");
}

CoreLimit::~CoreLimit() { sched_setaffinity(0, sizeof previous_, &previous_); }

}  // namespace heddle::bench
