// Training speed of a convolutional network: Heddle beside PyTorch, in one run, on the same number of cores.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/heddle.h>

#include "command_line.h"
#include "support/peer_process.h"
#include "support/support.h"
#include "train/train_network.h"

namespace {

using namespace heddle;
using bench::PeerProcess;

struct TrainOptions {
  bench::Options common;
  std::int64_t batch = 64;
  int steps = 60;  // number of training steps of a measured run
  bool torch = true;
  bool bf16 = false;  // whether both also train in bf16
  std::string python = "/usr/bin/python3";
};

double ask_torch(PeerProcess& peer, int steps) {
  std::istringstream answer(peer.ask(std::to_string(steps)));
  double images_per_second = 0;
  if (!(answer >> images_per_second)) throw std::runtime_error("pytorch said: " + answer.str());
  return images_per_second;
}

struct Torch {
  std::unique_ptr<PeerProcess> process;
  std::string setting;
};

// Starts PyTorch with each of its settings, measures one run after a warm-up, and keeps the fastest process.
// Throws std::runtime_error if PyTorch does not run.
Torch start_torch(const TrainOptions& options, int threads, bool bf16) {
  Torch best;
  double most = 0;
  for (const bench::TorchSetting& setting : bench::torch_settings(threads)) {
    std::vector<std::string> command{options.python, TRAIN_TORCH_SCRIPT,
                                     "--threads",    std::to_string(threads),
                                     "--batch",      std::to_string(options.batch)};
    command.insert(command.end(), setting.arguments.begin(), setting.arguments.end());
    if (bf16) command.push_back("--bf16");
    auto process = std::make_unique<PeerProcess>(command, setting.environment);
    ask_torch(*process, 5);
    const double images_per_second = ask_torch(*process, options.steps / 2 + 1);
    std::printf("pytorch%s %s: %.0f images/s\n", bf16 ? " bf16" : "", setting.name.c_str(),
                images_per_second);
    if (images_per_second <= most) continue;
    most = images_per_second;
    best = {std::move(process), setting.name};
  }
  return best;
}

void run_case(const TrainOptions& options, int workers) {
  const bench::CoreLimit limit(0, workers);
  bench::TrainNetwork heddle(workers, options.batch);
  bench::Case the_case{"train", "cnn", "images/s", workers, {}};
  the_case.subjects.push_back({"heddle", [&] { return heddle.run(options.steps); }});
  std::optional<bench::TrainNetwork> heddle_bf16;
  if (options.bf16) {
    heddle_bf16.emplace(workers, options.batch, nullptr, DType::bf16);
    the_case.subjects.push_back({"heddle bf16", [&] { return heddle_bf16->run(options.steps); }});
  }
  Torch torch, torch_bf16;
  if (options.torch) {
    try {
      torch = start_torch(options, workers, false);
      the_case.subjects.push_back({"pytorch", [&] { return ask_torch(*torch.process, options.steps); }});
      if (options.bf16) {
        torch_bf16 = start_torch(options, workers, true);
        the_case.subjects.push_back(
            {"pytorch bf16", [&] { return ask_torch(*torch_bf16.process, options.steps); }});
      }
    } catch (const std::runtime_error& error) {
      std::printf("no pytorch beside us: %s\n", error.what());
    }
  }
  const std::vector<bench::Result> results = bench::measure(the_case, options.common);
  std::printf("%d worker%s, on as many cores:\n", workers, workers == 1 ? "" : "s");
  bench::print_table(results, [&](const bench::Result& result) {
    return result.subject == "pytorch"        ? torch.setting
           : result.subject == "pytorch bf16" ? torch_bf16.setting
                                              : std::string();
  });
  bench::append_json(results, options.common);
}

}  // namespace

int main(int argc, char** argv) {
  TrainOptions options;
  options.common.workers = {1, 2};
  heddle::command_line::Program app("train_bench",
                                    "How fast a convolutional network trains: Heddle beside PyTorch");
  bench::add_options(app, options.common);
  app.add_option("--batch", options.batch, "images a step").show_default().range(1, 65536);
  const auto steps =
      app.add_option("--steps", options.steps, "steps a measured run").show_default().range(1, 1000000);
  app.add_flag("--torch,!--no-torch", options.torch, "run PyTorch beside us (the default)");
  app.add_flag("--bf16", options.bf16, "train in bf16 with f32 weights, too");
  app.add_option("--python", options.python, "the Python that can import torch").show_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  if (options.common.quick && !steps.given()) options.steps = 20;
  if (std::string("cnn").find(options.common.filter) == std::string::npos) return EXIT_SUCCESS;
  try {
    for (int workers : options.common.workers) run_case(options, workers);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
