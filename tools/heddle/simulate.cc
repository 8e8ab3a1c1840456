// heddle simulate: predicts the time of a training step for other numbers of ranks and other networks.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "command.h"
#include "simulate/forecast.h"
#include "simulate/units.h"
#include "trace/trace_file.h"

namespace heddle::tool {
namespace {

constexpr int kMostRanks = 1 << 20;

struct Options {
  std::string trace, model, tuning, html;
  std::string alpha, beta, local_alpha, local_beta, gamma, bucket = "1MiB";
  int ranks_per_host = 1, servers = 0, steps = 0;
  double speed = 0, images = 0;
  std::vector<std::string> algorithms{"ring", "tree", "hierarchical", "server"};
  std::vector<int> ranks;
  bool json = false;
};

constexpr const char* kDescription =
    "Predicts what a training step takes on 2 to 4,096 ranks, from a step of one rank and a network:\n"
    "what reduces the gradients, what of it is hidden behind the backward pass, what is kept of the speed.";

constexpr const char* kFooter =
    "A message of n bytes takes alpha + n / beta; gradients are reduced in buckets, in the order in which\n"
    "the backward pass computes them. docs/simulation.md says what that leaves out, and how far off it "
    "is.\n\n"
    "  HEDDLE_TRACE=step.json ./train          with KVStore \"allreduce\"; one rank is enough\n"
    "  heddle simulate step.json --alpha 20us --beta 25Gbit/s --ranks-per-host 4\n"
    "  heddle simulate --model vgg16 --bucket 64MiB --ranks-per-host 4 --local-beta 10GB/s --html vgg.html\n"
    "  heddle simulate step.json --tuning tuning --ranks 2,3,4 --algorithms halving_doubling";

// Parses an option's value by `parse`; the message of an error names the option.
template <class Parse> double parsed(const char* option, const std::string& text, Parse&& parse) {
  try {
    return parse(text);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("simulate: ") + option + ": " + error.what());
  }
}

SimulatedCluster cluster_of(const Options& options) {
  SimulatedCluster cluster;
  if (!options.tuning.empty()) cluster.network = tuning_from_file(options.tuning);
  NetworkCost& network = cluster.network;
  const auto set = [](const char* option, const std::string& text, double& value, auto parse) {
    if (!text.empty()) value = parsed(option, text, parse);
  };
  set("--alpha", options.alpha, network.remote.alpha, seconds_from);
  set("--beta", options.beta, network.remote.beta, seconds_a_byte_from);
  set("--local-alpha", options.local_alpha, network.local.alpha, seconds_from);
  set("--local-beta", options.local_beta, network.local.beta, seconds_a_byte_from);
  set("--gamma", options.gamma, network.gamma, seconds_a_byte_from);
  network.ranks_per_host = options.ranks_per_host;
  cluster.bucket = parsed("--bucket", options.bucket, bytes_from);
  cluster.servers = options.servers;
  return cluster;
}

Step step_of(const Options& options) {
  if (options.trace.empty() == options.model.empty())
    throw std::runtime_error("simulate: want a trace or --model, one of them");
  if (options.steps > 0 && !options.model.empty())
    throw std::runtime_error("simulate: --steps is of a trace, and --model has one step");
  if (options.speed > 0 && options.model.empty())
    throw std::runtime_error("simulate: --speed is of --model, and a trace has its own");
  Step step = options.model.empty()
                  ? step_of_trace(read_traces({options.trace}), options.trace, options.steps)
                  : step_of_model(options.model, options.speed);
  if (options.images > 0) step.images = options.images;
  return step;
}

std::vector<int> ranks_of(const Options& options) {
  std::vector<int> ranks = options.ranks;
  if (ranks.empty()) {
    for (int count = 2; count <= 4096; count *= 2) ranks.push_back(count);
  }
  return ranks;
}

void write_page(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

int run(const Options& options) {
  const SimulatedCluster cluster = cluster_of(options);
  std::vector<Scheme> schemes;
  for (const std::string& name : options.algorithms) schemes.push_back(scheme_of(name));
  const Forecast forecast = forecast_of(step_of(options), cluster, std::move(schemes), ranks_of(options));
  const std::string text = options.json ? forecast_json(forecast) : forecast_text(forecast);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!options.html.empty()) write_page(options.html, forecast_page(forecast));
  return 0;
}

void add_step_options(command_line::Command& command, Options& options) {
  command.add_option("trace", options.trace, "a trace that HEDDLE_TRACE=FILE wrote, of one rank; - is stdin");
  command
      .add_option("--model", options.model,
                  "instead of a trace: hepcnn on a Xeon Phi; inception3, resnet101, vgg16 on a P100")
      .type_name("NAME");
  command.add_option("--speed", options.speed, "images/s of the model on one rank, if not as published")
      .positive()
      .type_name("N");
  command.add_option("--steps", options.steps, "in the trace, where sizes that repeat do not tell")
      .range(1, 1'000'000'000)
      .type_name("N");
  command.add_option("--images", options.images, "of a rank in a step; with it --json says images/s of all")
      .positive()
      .type_name("N");
}

void add_network_options(command_line::Command& command, Options& options) {
  command.add_option("--alpha", options.alpha, "a message between hosts: 20us").type_name("TIME");
  command.add_option("--beta", options.beta, "the link of a host, which its ranks share: 25Gbit/s")
      .type_name("RATE");
  command.add_option("--local-alpha", options.local_alpha, "a message inside a host").type_name("TIME");
  command.add_option("--local-beta", options.local_beta, "what a rank sends inside a host: 4GB/s")
      .type_name("RATE");
  command.add_option("--gamma", options.gamma, "at which a rank combines: 10GB/s").type_name("RATE");
  command
      .add_option("--tuning", options.tuning,
                  "take what is not given here from this file, which comm_bench --tune wrote")
      .type_name("FILE");
  command.add_option("--ranks-per-host", options.ranks_per_host, "ranks fill one host after the other")
      .show_default()
      .range(1, kMostRanks)
      .type_name("N");
}

}  // namespace

void add_simulate(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("simulate", kDescription);
  command.footer(kFooter);
  add_step_options(command, *options);
  add_network_options(command, *options);
  command.add_option("--bucket", options->bucket, "gradients that are reduced together: 1MiB; Horovod: 64MiB")
      .show_default()
      .type_name("SIZE");
  command.add_option("--servers", options->servers, "parameter servers; one for each host if not given")
      .range(1, kMostRanks)
      .type_name("N");
  command
      .add_option("--algorithms", options->algorithms,
                  "of ring, tree, recursive_doubling, halving_doubling, hierarchical, server")
      .delimiter(',')
      .show_default()
      .type_name("NAME,...");
  command.add_option("--ranks", options->ranks, "how many; 2,4,8 ... 4096 if not given")
      .delimiter(',')
      .range(1, kMostRanks)
      .type_name("N,...");
  command.add_option("--html", options->html, "draw the curves, as one page that needs no network")
      .type_name("FILE");
  command.add_flag("--json", options->json, "print JSON; times are in seconds");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
