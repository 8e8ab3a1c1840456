// Scaling of data-parallel training: the speed of processes whose store reduces gradients, compared with the
// same processes each training alone; likewise for PyTorch's DistributedDataParallel over gloo. Processes
// that reduce only one small gradient a step show the cost of waiting for the slowest process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "command_line.h"
#include "support/peer_process.h"
#include "support/support.h"
#include "train/networks/network.h"
#include "train/timed_steps.h"
#include "train/train_network.h"

namespace {

using namespace heddle;
using bench::PeerProcess;
using Environment = std::vector<std::pair<std::string, std::string>>;

struct RanksOptions {
  bench::Options common;
  int ranks = 2;
  std::string network = "cnn";
  std::int64_t batch = 0;  // number of images per step of each rank; 0: the network's own
  int steps = 0;           // number of training steps of a measured run; 0: the network's own
  bool torch = true;
  bool pin = false;  // whether each process is pinned to a core
  std::string python = "/usr/bin/python3";
  std::string child;  // in a child process, its kind of store: "allreduce", "in-step" or "alone"
};

// A store whose ranks train separate models but keep in step. Only the gradient of key 0 is reduced, a small
// one and the last of a step, so that each step waits for the slowest rank.
class InStepStore final : public KVStore {
 public:
  explicit InStepStore(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}
  std::string type() const override { return "in-step"; }
  int rank() const override { return ranks_->rank(); }
  int workers() const override { return ranks_->size(); }
  std::map<std::string, NDArray> optimizer_state() const override { return own_->optimizer_state(); }

 private:
  void do_init(Key key, const NDArray& value) override { own_->init(key, value); }
  void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) override {
    if (key == 0) ranks_->all_reduce(values[0]);
    own_->push(key, values, options);
  }
  void do_pull(Key key, std::span<const NDArray> out) override { own_->pull(key, out); }
  // The models here have no row-sparse parameters.
  void do_push_rows(Key, const RowSparse&, const UpdateOptions&) override {
    throw InvalidArgument("this store has no rows");
  }
  RowSparse do_pull_rows(Key, const NDArray&, const NDArray*) override {
    throw InvalidArgument("this store has no rows");
  }
  void do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                    const UpdateOptions& options) override {
    do_push(key, values, options);
    do_pull(key, out);
  }
  void do_list(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
               const UpdateOptions& options) override {
    for (std::size_t i = 0; i < values.size(); ++i) do_push(keys[i], values.subspan(i, 1), options);
    for (std::size_t i = out.size(); i-- > 0;) do_pull(keys[i], out.subspan(i, 1));
  }
  void do_assign(Key key, const NDArray& value) override { own_->assign(key, value); }
  void do_set_optimizer(const std::string& name, const OptimizerParams& params, const std::string&) override {
    own_->set_optimizer(name, params);
  }
  void do_set_optimizer_state(const std::map<std::string, NDArray>& state) override {
    own_->set_optimizer_state(state);
  }
  void do_clear_errors() override { own_->clear_errors(); }
  void do_barrier() override { ranks_->barrier(); }

  const std::shared_ptr<Communicator> ranks_;
  const std::unique_ptr<KVStore> own_ = KVStore::create("local");
};

// Trains as one rank. Each line of stdin is a number of steps to train; the answer is images per second.
int be_rank(const RanksOptions& options) {
  std::shared_ptr<Communicator> ranks;  // of all stores
  const auto make_store = [&]() -> std::shared_ptr<KVStore> {
    if (options.child == "alone") return KVStore::create("local");
    if (!ranks) ranks = Communicator::create();
    if (options.child == "in-step") return std::make_shared<InStepStore>(ranks);
    return KVStore::create("allreduce", ranks);
  };
  const auto answer = [](auto&& run) {
    for (int steps = 0; std::cin >> steps;) std::cout << run(steps) << std::endl;
  };
  if (options.network == "cnn") {
    bench::TrainNetwork network(1, options.batch, make_store);
    answer([&](int steps) { return network.run(steps); });
  } else {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    Generator random(1);
    const bench::NetworkSetup setup{options.batch, make_store};
    const auto network =
        options.network == "hep-cnn" ? bench::make_hep_cnn(setup) : bench::make_cosmogan(setup);
    const bench::Arrays batch = network->draw_batch(random);
    answer([&](int steps) {
      const auto timed = bench::timed_steps(engine, steps, [&] { return network->step(batch, false); });
      return static_cast<double>(options.batch * steps) / timed.seconds;
    });
  }
  return EXIT_SUCCESS;
}

// The processes of a training job, which get each command at the same time.
class Group {
 public:
  Group(const RanksOptions& options, const std::vector<std::string>& command, const Environment& common) {
    const int ranks = options.ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto core = options.pin ? std::make_unique<bench::CoreLimit>(rank, 1) : nullptr;
      Environment environment = common;
      for (const char* name : {"HEDDLE_RANK", "HEDDLE_LOCAL_RANK", "RANK", "LOCAL_RANK"})
        environment.emplace_back(name, std::to_string(rank));
      for (const char* name : {"HEDDLE_SIZE", "HEDDLE_LOCAL_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
        environment.emplace_back(name, std::to_string(ranks));
      processes_.push_back(std::make_unique<PeerProcess>(command, environment));
    }
  }

  // The images per second of the job: the rate of its slowest process, times the number of processes.
  double run(int steps) {
    std::vector<std::thread> threads;
    std::vector<std::string> answers(processes_.size());
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          answers[i] = processes_[i]->ask(std::to_string(steps));
        } catch (const std::exception& error) {
          answers[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    double slowest = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      double rate = 0;
      if (!(std::istringstream(answers[i]) >> rate)) throw std::runtime_error("a rank said: " + answers[i]);
      slowest = i == 0 ? rate : std::min(slowest, rate);
    }
    return slowest * static_cast<double>(answers.size());
  }

 private:
  std::vector<std::unique_ptr<PeerProcess>> processes_;
};

// A new path for the file by which the processes of a job find each other.
std::string new_file() {
  static int groups = 0;
  return "/tmp/heddle-train-ranks-" + std::to_string(::getpid()) + "-" + std::to_string(++groups);
}

std::unique_ptr<Group> start_heddle(const RanksOptions& options, const std::string& how) {
  return std::make_unique<Group>(
      options,
      std::vector<std::string>{"/proc/self/exe", "--child", how, "--network", options.network, "--batch",
                               std::to_string(options.batch)},
      Environment{{"HEDDLE_RENDEZVOUS", "unix:" + new_file() + ".sock"}});
}

// The setting with which PyTorch is fastest when each process trains alone.
bench::TorchSetting best_setting(const RanksOptions& options, const std::vector<std::string>& command) {
  bench::TorchSetting best;
  double most = 0;
  for (const bench::TorchSetting& setting : bench::torch_settings(1)) {
    std::vector<std::string> words = command;
    words.insert(words.end(), setting.arguments.begin(), setting.arguments.end());
    Group group(options, words, setting.environment);
    group.run(5);
    const double rate = group.run(options.steps / 2 + 1);
    std::printf("pytorch %s: %.0f images/s\n", setting.name.c_str(), rate);
    if (rate <= most) continue;
    most = rate;
    best = {setting.name, setting.environment, words};
  }
  return best;
}

// A subject that starts new processes for each round, since the place of a process's memory changes its speed
// by several percent.
template <class Start> bench::Subject subject(const std::string& name, int steps, Start start) {
  constexpr int kFirst = 5;  // unmeasured first steps, which allocate and touch memory
  return {name, [=] {
            const std::unique_ptr<Group> group = start();
            group->run(kFirst);
            return group->run(steps);
          }};
}

std::unique_ptr<Group> start_torch(const RanksOptions& options, bench::TorchSetting setting, bool together) {
  if (together) {
    setting.arguments.push_back("--ddp");
    setting.environment.emplace_back("TRAIN_TORCH_FILE", new_file());
  }
  return std::make_unique<Group>(options, setting.arguments, setting.environment);
}

bench::TorchSetting find_torch(const RanksOptions& options) {
  const std::vector<std::string> command{options.python, TRAIN_TORCH_SCRIPT,           "--threads", "1",
                                         "--batch",      std::to_string(options.batch)};
  bench::TorchSetting best = best_setting(options, command);
  start_torch(options, best, true)->run(1);  // throws here if DDP does not work
  return best;
}

void run_case(const RanksOptions& options) {
  bench::Case the_case{"train_ranks", options.network, "images/s", options.ranks, {}};
  for (const auto& [name, how] : {std::pair{"heddle allreduce", "allreduce"},
                                  {"heddle alone", "alone"},
                                  {"heddle in step", "in-step"}}) {
    the_case.subjects.push_back(
        subject(name, options.steps, [&, how] { return start_heddle(options, how); }));
  }
  bench::TorchSetting torch;
  if (options.torch) {
    try {
      torch = find_torch(options);
      for (const bool ddp : {true, false}) {
        the_case.subjects.push_back(subject(ddp ? "pytorch ddp gloo" : "pytorch alone", options.steps,
                                            [&, ddp] { return start_torch(options, torch, ddp); }));
      }
    } catch (const std::runtime_error& error) {
      std::printf("no pytorch beside us: %s\n", error.what());
    }
  }
  const std::vector<bench::Result> results = bench::measure(the_case, options.common);
  std::printf("%d processes of one worker, %lld images a step and process:\n", options.ranks,
              static_cast<long long>(options.batch));
  bench::print_table(results, [&](const bench::Result& result) {
    return result.subject.starts_with("pytorch") ? torch.name : std::string();
  });
  const auto kept = [&](std::size_t subject, std::size_t alone_too) {
    std::printf("%s keeps %.1f %% of the rate without communication (median of the rounds' ratios)\n",
                results[subject].subject.c_str(),
                100 * bench::median_ratio(results[subject], results[alone_too]));
  };
  if (results.size() > 2) {
    kept(0, 1), kept(2, 1);
    std::printf("%s has %.1f %% of the rate of ranks that only keep step\n", results[0].subject.c_str(),
                100 * bench::median_ratio(results[0], results[2]));
  }
  if (results.size() > 4) kept(3, 4);
  bench::append_json(results, options.common);
}

}  // namespace

int main(int argc, char** argv) {
  RanksOptions options;
  heddle::command_line::Program app("train_ranks",
                                    "How much of their speed processes keep that train together");
  bench::add_run_options(app, options.common);
  app.add_option("--ranks", options.ranks, "processes").show_default().range(1, 64);
  app.add_option("--network", options.network, "what is trained; PyTorch trains the cnn only")
      .show_default()
      .one_of({"cnn", "hep-cnn", "cosmogan"});
  app.add_option("--batch", options.batch, "images a step and process [64; hep-cnn 8, cosmogan 16]")
      .range(1, 65536);
  app.add_option("--steps", options.steps, "steps a measured run [60; hep-cnn 4, cosmogan 8]")
      .range(1, 1000000);
  app.add_flag("--torch,!--no-torch", options.torch, "run PyTorch beside us (the default)");
  app.add_flag("--pin", options.pin, "hold each process to a core of its own");
  app.add_option("--python", options.python, "the Python that can import torch").show_default();
  app.add_option("--child", options.child).one_of({"allreduce", "in-step", "alone"}).hidden();
  if (const auto status = app.parse(argc, argv)) return *status;
  const bool cnn = options.network == "cnn", hep_cnn = options.network == "hep-cnn";
  if (options.batch == 0) options.batch = cnn ? 64 : hep_cnn ? 8 : 16;
  if (options.steps == 0) options.steps = cnn ? (options.common.quick ? 20 : 60) : hep_cnn ? 4 : 8;
  options.torch &= cnn;
  if (options.common.quick && !app.find_option("--runs")->given()) options.common.runs = 3;
  if (options.network.find(options.common.filter) == std::string::npos) return EXIT_SUCCESS;
  try {
    if (!options.child.empty()) return be_rank(options);
    run_case(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_ranks: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
