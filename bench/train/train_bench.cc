// Training speed of a convolutional network, and with --networks of many: Heddle beside PyTorch, in one run, on the same
// number of cores.
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
#include "train/networks/child.h"
#include "train/networks/network.h"
#include "train/networks/table.h"
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
  bool networks = false;
  bench::NetworkOptions of_networks;
  bench::ChildOptions child;  // of a child process; its network is empty in others
  std::string mode = "eager";
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
  bench::TrainNetwork heddle(workers, options.batch), captured(workers, options.batch, nullptr, true);
  bench::Case the_case{"train", "cnn", "images/s", workers, {}};
  the_case.subjects.push_back({"heddle", [&] { return heddle.run(options.steps); }});
  the_case.subjects.push_back({"captured", [&] { return captured.run(options.steps); }});
  std::optional<bench::TrainNetwork> heddle_bf16;
  if (options.bf16) {
    heddle_bf16.emplace(workers, options.batch, nullptr, true, DType::bf16);
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

std::string networks_help() {
  std::string text =
      "With --networks whole networks are trained, each by a process of ours that runs eagerly, one that "
      "launches captured "
      "steps, and one of PyTorch 2, by turns. PyTorch is tried as it comes, with its memory kept, with "
      "channels last, compiled, "
      "with packed sequences; the fastest counts. All begin with the same weights and batches; a row says "
      "how far the losses "
      "of the first steps are apart, and more than 0.1 % is an error. Tables come on stdout, progress on "
      "stderr:\n\n"
      "  train_bench --networks --python PYTHON                       all networks, with 1 and 2 threads: "
      "half an hour\n"
      "  train_bench --networks --only mlp,lstm --workers 1 --runs 3  some of them\n\nNetworks:\n";
  for (const bench::NetworkKind& kind : bench::network_kinds())
    text += "  " + kind.name + std::string(14 - kind.name.size(), ' ') + kind.text + "\n";
  return text;
}

void add_network_options(command_line::Command& app, TrainOptions& options) {
  std::vector<std::string> names;
  for (const bench::NetworkKind& kind : bench::network_kinds()) names.push_back(kind.name);
  bench::NetworkOptions& networks = options.of_networks;
  app.add_flag("--networks", options.networks, "whole networks; see below");
  app.add_option("--only", networks.only, "with --networks: these, separated by commas")
      .delimiter(',')
      .one_of(names);
  app.add_option("--seconds", networks.seconds, "with --networks: length of a measured run")
      .show_default()
      .range(0.01, 3600.0);
  app.add_flag("--compile,!--no-compile", networks.compile,
               "with --networks: also try torch.compile (the default)");
  app.add_option("--precision", networks.precision, "with --networks: f32, or mixed with bf16")
      .show_default()
      .one_of({"f32", "bf16"});
  app.add_option("--child", options.child.network).one_of(names).hidden();
  app.add_option("--start", options.child.start).hidden();
  app.add_option("--mode", options.mode).one_of({"eager", "captured"}).hidden();
  app.footer(networks_help());
}

int run(TrainOptions& options) {
  if (!options.child.network.empty()) {
    options.child.captured = options.mode == "captured";
    options.child.bf16 = options.of_networks.precision == "bf16";
    options.child.workers = options.common.workers.front();
    return bench::train_on_command(options.child);
  }
  if (options.networks) {
    options.of_networks.common = options.common;
    options.of_networks.python = options.python;
    options.of_networks.torch = options.torch;
    return bench::measure_networks(options.of_networks) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (std::string("cnn").find(options.common.filter) == std::string::npos) return EXIT_SUCCESS;
  for (const int workers : options.common.workers) run_case(options, workers);
  return EXIT_SUCCESS;
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
  add_network_options(app, options);
  if (const auto status = app.parse(argc, argv)) return *status;
  if (options.common.quick && !steps.given()) options.steps = 20;
  if (options.common.quick && options.networks) {
    if (!app.find_option("--seconds")->given()) options.of_networks.seconds = 0.3;
    if (!app.find_option("--runs")->given()) options.common.runs = 3;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
