// How long operators take: Heddle beside PyTorch, in one run, on the same number of cores.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/default_engine.h>
#include <heddle/ops.h>

#include "command_line.h"
#include "ops/ops_families.h"
#include "support/peer_process.h"
#include "support/support.h"

namespace {

using namespace heddle;
using bench::PeerProcess;

struct OpsOptions {
  bench::Options common;
  bool torch = true, families = false;
  std::string python = "/usr/bin/python3";
};

struct OperatorCase {
  std::string name;
  int calls;  // calls per run
  std::function<NDArray()> call;
};

// The cases of ops_torch.py, with arrays on the current engine.
std::vector<OperatorCase> operator_cases() {
  Generator from(1);
  const auto numbers = [&](const Shape& shape, DType dtype) { return from.uniform(shape, -1, 1, dtype); };
  const NDArray rows = numbers({256, 1000}, DType::f32), square = numbers({1000, 1000}, DType::f32);
  const NDArray doubles = numbers({512, 512}, DType::f64), singles = numbers({512, 512}, DType::f32);
  const NDArray systems = numbers({64, 32, 32}, DType::f64) + eye(32, DType::f64) * 8;
  const NDArray large = numbers({200, 200}, DType::f64) + eye(200, DType::f64) * 8;
  const NDArray heads = numbers({4, 8, 128, 64}, DType::f32);
  return {{"softmax", 200, [=] { return softmax(rows); }},
          {"log_softmax", 200, [=] { return log_softmax(rows); }},
          {"sum_axis_1", 200, [=] { return sum(square, {1}); }},
          {"sum_axis_0", 200, [=] { return sum(square, {0}); }},
          {"tanh", 200, [=] { return tanh(square); }},
          {"matmul_f32", 50, [=] { return matmul(singles, singles); }},
          {"matmul_f64", 25, [=] { return matmul(doubles, doubles); }},
          {"einsum_heads", 100,
           [=] {
             return einsum("bhqd,bhkd->bhqk", {heads, heads});
           }},
          {"solve_batch", 100, [=] { return solve(systems, systems); }},
          {"inv", 50, [=] { return inv(large); }},
          {"svd", 5, [=] { return svd(large)[0]; }},
          {"eigh", 10, [=] { return eigh(large)[0]; }},
          {"qr", 20, [=] { return qr(large)[0]; }}};
}

double run_heddle(const OperatorCase& the_case, int calls) {
  const double start = bench::now();
  for (int i = 0; i < calls; ++i) the_case.call().wait();
  return (bench::now() - start) / calls * 1e6;
}

double ask_torch(PeerProcess& peer, const std::string& name, int calls) {
  std::istringstream answer(peer.ask(name + " " + std::to_string(calls)));
  double microseconds = 0;
  if (!(answer >> microseconds)) throw std::runtime_error("pytorch said: " + answer.str());
  return microseconds;
}

// Starts PyTorch in a process with raised malloc thresholds: by default glibc maps, faults in and unmaps
// every large result.
std::unique_ptr<PeerProcess> start_torch(const OpsOptions& options, int threads) {
  const std::string count = std::to_string(threads);
  const std::vector<std::pair<std::string, std::string>> environment{{"MALLOC_MMAP_THRESHOLD_", "1073741824"},
                                                                     {"MALLOC_TRIM_THRESHOLD_", "4294967296"},
                                                                     {"MALLOC_TOP_PAD_", "268435456"},
                                                                     {"OPENBLAS_NUM_THREADS", count}};
  return std::make_unique<PeerProcess>(std::vector<std::string>{options.python, OPS_TORCH_SCRIPT, count},
                                       environment);
}

void run_cases(const OpsOptions& options, int workers) {
  const bench::CoreLimit limit(0, workers);
  Engine engine({.workers = workers});
  const EngineScope scope(engine);
  std::unique_ptr<PeerProcess> torch;
  for (const OperatorCase& the_case : operator_cases()) {
    if (the_case.name.find(options.common.filter) == std::string::npos) continue;
    const int calls = options.common.quick ? the_case.calls / 5 + 1 : the_case.calls;
    bench::Case timed{"ops", the_case.name, "us", workers, {}};
    timed.subjects.push_back({"heddle", [&] { return run_heddle(the_case, calls); }});
    if (options.torch) {
      try {
        if (!torch) {
          torch = start_torch(options, workers);
        }
        ask_torch(*torch, the_case.name, 1);
        timed.subjects.push_back({"pytorch", [&] { return ask_torch(*torch, the_case.name, calls); }});
      } catch (const std::runtime_error& error) {
        std::printf("no pytorch beside us: %s\n", error.what());
      }
    }
    const std::vector<bench::Result> results = bench::measure(timed, options.common);
    bench::print_table(results);
    bench::append_json(results, options.common);
  }
}

}  // namespace

int main(int argc, char** argv) {
  OpsOptions options;
  options.common.workers = {1, 2};
  heddle::command_line::Program app("ops_bench", "How long operators take: Heddle beside PyTorch");
  bench::add_options(app, options.common);
  app.add_flag("--torch,!--no-torch", options.torch, "run PyTorch beside us (the default)");
  app.add_flag("--families", options.families,
               "every family at four sizes, as tables of ratios, in place of the cases");
  app.add_option("--python", options.python, "the Python that can import torch").show_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    if (options.families) {
      bench::run_families(options.common, options.torch ? options.python : "");
      return EXIT_SUCCESS;
    }
    for (int workers : options.common.workers) run_cases(options, workers);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ops_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
