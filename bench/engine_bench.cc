// What an op costs: Heddle beside OpenMP tasks and a oneTBB flow graph, on the same ops.
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine_program.h"
#include "engine_replay.h"
#include "support.h"

namespace {

using namespace heddle::bench;

constexpr double kSpinSeconds = 10e-6;

struct Workload {
  std::string name;
  Program (*make)(std::uint32_t ops);
  std::uint32_t ops, quick_ops;
  double spin_seconds;
};

const Workload kWorkloads[] = {
    {"chain", chain, 1'000'000, 200'000, 0},
    {"independent", independent, 1'000'000, 200'000, 0},
    {"fan", fan, 260'000, 65'000, 0},
    {"dag", dag, 250'000, 60'000, 0},
    {"dag10us", dag, 20'000, 8'000, kSpinSeconds},
};

// Nanoseconds an op; throws if the cells do not end up as a serial run leaves them.
double timed_run(const std::string& subject, const Program& program, std::vector<Cell>& cells,
                 std::uint64_t expected, const Runner& run) {
  for (Cell& cell : cells) cell.value = 0;
  const double start = now();
  run();
  const double seconds = now() - start;
  if (checksum(cells) != expected) throw std::runtime_error(subject + " computed something else");
  return seconds * 1e9 / static_cast<double>(program.ops.size());
}

void run_workload(const Workload& workload, std::uint32_t ops, const Options& options) {
  Program program = workload.make(ops);
  if (workload.spin_seconds > 0) program.spin = spin_steps(workload.spin_seconds);
  std::vector<Cell> cells(program.cells);
  const std::uint64_t expected = serial_checksum(program);

  Case the_case{"engine", workload.name, "ns/op", {}};
  const auto add = [&](const std::string& name, auto make_runner) {
    Runner runner = make_runner(program, cells.data(), options.workers);
    the_case.subjects.push_back(
        {name, [&, name, runner] { return timed_run(name, program, cells, expected, runner); }});
  };
  add("heddle", heddle_runner);
  add(OPENMP_SUBJECT, openmp_runner);
  add("tbb_flow_graph", flow_graph_runner);

  const std::vector<Result> results = measure(the_case, options);
  print_table(results, [&](const Result& result) -> std::string {
    if (workload.spin_seconds == 0) return "";
    const double ideal = workload.spin_seconds * 1e9 / options.workers;
    return "efficiency " + std::to_string(std::lround(100 * ideal / result.median)) + " %";
  });
  append_json(results, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::uint32_t ops = 0;
  CLI::App app("What an op costs: Heddle beside OpenMP tasks and a oneTBB flow graph");
  add_options(app, options);
  app.add_option("--ops", ops, "ops a run; 0: as many as suit the case")->check(CLI::Range(0U, 100'000'000U));
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("%d workers, median of %d runs; a cache line goes to the other core and back in %.0f ns\n",
                options.workers, options.runs, cache_line_round_trip());
    std::printf("%-12s %-16s %12s %-8s %10s .. %-10s %12s\n", "case", "subject", "median", "", "min", "max",
                "heddle/peer");
    for (const Workload& workload : kWorkloads) {
      if (workload.name.find(options.filter) == std::string::npos) continue;
      run_workload(workload, ops > 0 ? ops : options.quick ? workload.quick_ops : workload.ops, options);
    }
    run_replay_cases(ops, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
