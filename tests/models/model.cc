#include "model.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace model {
namespace {

// Emits Relacy's inline allocation functions by taking their addresses, so that the standard library uses
// them too.
[[gnu::used]] void* (*const kNew)(std::size_t) = &::operator new;
[[gnu::used]] void* (*const kNewArray)(std::size_t) = &::operator new[];
[[gnu::used]] void (*const kDelete)(void*) noexcept = &::operator delete;
[[gnu::used]] void (*const kDeleteArray)(void*) noexcept = &::operator delete[];

constexpr const char* kUsage =
    R"(MODEL [--count N] [--first N] [--bound N] [--only PROGRAM] [--history] [--hunt]
MODEL --weaken [--required] [--count N]
MODEL --list

Runs the model's programs: N random schedules of each (default 20000), from number --first on; with --bound instead all
schedules with at most N preemptions. --history prints the schedule that fails. --weaken runs them once more for each weaker
memory order at each place in the product, prints what was found, and fails if one that must be found was not; with
--required it tries those that must be found alone. --hunt lets the programs take turns, and ends with the first failure.
--list prints the programs' names.
)";

struct Options {
  Run run{.count = 20000};
  std::string only;
  bool weaken = false, required = false, hunt = false, list = false;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    auto number = [&] { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
    if (name == "--count") {
      options.run.count = number();
    } else if (name == "--first") {
      options.run.first = number();
    } else if (name == "--bound") {
      options.run.search = Search::bounded;
      options.run.bound = static_cast<unsigned>(number());
    } else if (name == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (name == "--history") {
      options.run.history = true;
    } else if (name == "--weaken") {
      options.weaken = true;
    } else if (name == "--required") {
      options.required = true;
    } else if (name == "--hunt") {
      options.hunt = true;
    } else if (name == "--list") {
      options.list = true;
    } else {
      return false;
    }
  }
  return true;
}

std::vector<Program> wanted(const std::vector<Program>& programs, const Options& options) {
  std::vector<Program> chosen;
  for (const Program& one : programs) {
    if (!options.only.empty() && options.only != one.name) continue;
    if (options.run.search == Search::bounded && !one.bounded) continue;
    chosen.push_back(one);
  }
  return chosen;
}

int run_all(const std::vector<Program>& programs, const Run& run) {
  bool passed = true;
  std::uint64_t schedules = 0;
  for (const Program& program : programs) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = program.run(run);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-28s %s, %llu schedules, %.1f s%s%s\n", program.name, outcome.passed ? "passed" : "FAILED",
                static_cast<unsigned long long>(outcome.schedules), seconds, outcome.passed ? "" : ": ",
                outcome.failure.c_str());
    std::fflush(stdout);
    passed &= outcome.passed;
    schedules += outcome.schedules;
  }
  std::printf("%llu schedules in all\n", static_cast<unsigned long long>(schedules));
  return passed ? 0 : 1;
}

std::string order_name(rl::memory_order order) { return rl::format(order); }

// Returns the first program that fails; null if all pass. Runs all programs in turn, in rounds of growing
// length, since a bug is often found early by one program and never by the other programs.
const Program* first_to_fail(const std::vector<Program>& programs, const Run& run, Outcome& outcome) {
  const std::uint64_t end = run.first + run.count;
  for (std::uint64_t first = run.first, count = 32; first < end; first += count, count *= 2) {
    for (const Program& program : programs) {
      Run round = run;
      round.first = first;
      round.count = std::min(count, end - first);
      outcome = program.run(round);
      if (!outcome.passed) return &program;
    }
  }
  return nullptr;
}

int hunt(const std::vector<Program>& programs, const Run& run) {
  Outcome outcome{};
  const Program* finder = first_to_fail(programs, run, outcome);
  if (!finder) return 0;
  std::printf("%s FAILED: %s\n", finder->name, outcome.failure.c_str());
  return 1;
}

std::vector<Site> all_sites(const std::vector<Program>& programs) {
  const Collector collector;
  for (const Program& program : programs) program.run({.count = 300});
  return collector.sites();
}

// Weakens one memory order after the other. If several sites have the same name and order, it is enough that
// the programs fail for one of them.
int weaken_each(const std::vector<Program>& programs, const Options& options,
                const std::vector<std::string>& required) {
  std::vector<std::string> must_fail = required;
  int found = 0;
  for (const Site& site : all_sites(programs)) {
    for (const rl::memory_order order : weaker(site.order, site.kind)) {
      const std::string name = site.name() + " " + order_name(order);
      if (options.required && std::find(must_fail.begin(), must_fail.end(), name) == must_fail.end())
        continue;
      const Weakening weakening(site, order);
      Outcome outcome{};
      const Program* finder = first_to_fail(programs, options.run, outcome);
      std::printf("%-9s %s -> %s, line %u%s%s%s%s\n", finder ? "found" : "survives", site.name().c_str(),
                  order_name(order).c_str(), site.line, finder ? ": " : "", finder ? finder->name : "",
                  finder ? ", " : "", finder ? outcome.failure.c_str() : "");
      std::fflush(stdout);
      if (!finder) continue;
      ++found;
      std::erase(must_fail, name);
    }
  }
  for (const std::string& name : must_fail) std::printf("NOT FOUND: %s\n", name.c_str());
  std::printf("%d weakened orders found\n", found);
  return must_fail.empty() ? 0 : 1;
}

}  // namespace

Outcome run_schedules(const Run& run, bool (*simulate)(rl::test_params&)) {
  // Discards the output. A stringstream would allocate its text on Relacy's heap and free it on the normal
  // heap.
  std::ostream quiet(nullptr);
  rl::test_params params;
  params.iteration_count = run.first + run.count - 1;
  params.output_stream = run.history ? &std::cout : &quiet;
  params.progress_stream = &quiet;
  params.execution_depth_limit = 200000;
  params.context_bound = run.bound;
  params.search_type =
      run.search == Search::bounded ? rl::fair_context_bound_scheduler_type : rl::random_scheduler_type;
  params.initial_state = (std::to_string(run.first) + " ").c_str();
  params.collect_history = run.history;
  const bool passed = simulate(params);
  const auto schedules = params.stop_iteration >= run.first ? params.stop_iteration - run.first + 1 : 0;
  std::string failure;
  if (!passed) {
    failure = rl::test_result_str(params.test_result);
    failure += ", schedule " + std::to_string(params.stop_iteration);
  }
  return {passed, schedules, failure};
}

int run_models(int argc, char** argv, const std::vector<Program>& programs,
               const std::vector<std::string>& must_fail) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const std::vector<Program> chosen = wanted(programs, options);
  if (options.list) {
    for (const Program& one : chosen) std::puts(one.name);
    return 0;
  }
  if (options.weaken) return weaken_each(chosen, options, must_fail);
  if (chosen.empty()) {
    std::fputs("no program of that name, or none that can be searched\n", stderr);
    return 2;
  }
  return options.hunt ? hunt(chosen, options.run) : run_all(chosen, options.run);
}

}  // namespace model
