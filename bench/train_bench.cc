// How fast a convolutional network trains: Heddle beside PyTorch, in one run, on the same number of cores.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <heddle/heddle.h>

#include "peer_process.h"
#include "support.h"

namespace {

using namespace heddle;
using bench::PeerProcess;

struct TrainOptions {
  bench::Options common;
  std::int64_t batch = 64;
  int steps = 60;  // a measured run
  bool torch = true;
  std::string python = "/usr/bin/python3";
};

// Holds this thread, and the threads and processes that it starts from now on, to the first n cores that the
// process may use: a subject's helper threads then cost it the time that they take.
class CoreLimit {
 public:
  explicit CoreLimit(int cores) {
    sched_getaffinity(0, sizeof previous_, &previous_);
    cpu_set_t limited;
    CPU_ZERO(&limited);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&limited) < cores; ++core) {
      if (CPU_ISSET(core, &previous_)) CPU_SET(core, &limited);
    }
    sched_setaffinity(0, sizeof limited, &limited);
  }
  ~CoreLimit() { sched_setaffinity(0, sizeof previous_, &previous_); }
  CoreLimit(const CoreLimit&) = delete;
  CoreLimit& operator=(const CoreLimit&) = delete;

 private:
  cpu_set_t previous_;
};

// Pictures of ten patterns in noise; a fifth of the labels are wrong, so that the loss never vanishes.
struct Data {
  NDArray images, labels;
  explicit Data(std::int64_t count) {
    Generator random(1);
    const NDArray patterns = random.normal({10, 1, 28, 28}), classes = random.integers({count}, 0, 10);
    images = take(patterns, classes) + random.normal({count, 1, 28, 28});
    labels = where(random.bernoulli({count}, 0.2, DType::boolean), random.integers({count}, 0, 10), classes);
  }
};

class HeddleSubject {
 public:
  HeddleSubject(int workers, std::int64_t batch)
      : engine_({.workers = workers}),
        scope_(engine_),
        batch_(batch),
        data_(32 * batch),
        net_{Conv2d(1, 32, 3, {.padding = 1, .relu = true}),
             MaxPool2d(2),
             Conv2d(32, 64, 3, {.padding = 1, .relu = true}),
             MaxPool2d(2),
             Flatten(),
             Dense(3136, 128, {.relu = true}),
             Dense(128, 10)},
        trainer_(net_.parameters(), {.params = {{"lr", 0.01}, {"momentum", 0.9}}}) {}

  // Images a second over so many steps.
  double run(int steps) {
    engine_.wait_all();
    const double start = bench::now();
    NDArray previous;
    for (int i = 0; i < steps; ++i) {
      const NDArray loss = train_step();
      if (previous.defined()) previous.wait();  // at most two steps are in flight
      previous = loss;
    }
    engine_.wait_all();
    const double seconds = bench::now() - start;
    const auto last = static_cast<double>(previous.item<float>());
    if (!std::isfinite(last)) throw std::runtime_error("heddle: the loss is " + std::to_string(last));
    return static_cast<double>(steps * batch_) / seconds;
  }

 private:
  NDArray train_step() {
    const std::int64_t first = step_++ % 32 * batch_;
    const Slice rows{first, first + batch_};
    const NDArray loss = cross_entropy(net_(data_.images.slice(0, rows)), data_.labels.slice(0, rows));
    backward(loss);
    trainer_.step();
    return loss.detach();
  }

  Engine engine_;
  EngineScope scope_;
  std::int64_t batch_;
  Data data_;
  Sequential net_;
  Trainer trainer_;
  std::int64_t step_ = 0;
};

// One way to run PyTorch.
struct TorchSetting {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> arguments;
};

std::vector<TorchSetting> torch_settings(int threads) {
  // without the malloc settings every large tensor is mapped, faulted in and unmapped again
  const std::vector<std::pair<std::string, std::string>> tuned{
      {"ATEN_CPU_CAPABILITY", "avx512"},
      {"MALLOC_MMAP_THRESHOLD_", "1073741824"},
      {"MALLOC_TRIM_THRESHOLD_", "4294967296"},
      {"MALLOC_TOP_PAD_", "268435456"},
      {"OMP_NUM_THREADS", std::to_string(threads)},
      {"OPENBLAS_NUM_THREADS", std::to_string(threads)}};
  return {{"default", {}, {}}, {"tuned", tuned, {}}, {"tuned, channels last", tuned, {"--channels-last"}}};
}

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

// Tries each setting once after a warm-up and keeps the fastest. Throws std::runtime_error if PyTorch does not run.
Torch start_torch(const TrainOptions& options, int threads) {
  Torch best;
  double most = 0;
  for (const TorchSetting& setting : torch_settings(threads)) {
    std::vector<std::string> command{options.python, TRAIN_TORCH_SCRIPT,
                                     "--threads",    std::to_string(threads),
                                     "--batch",      std::to_string(options.batch)};
    command.insert(command.end(), setting.arguments.begin(), setting.arguments.end());
    auto process = std::make_unique<PeerProcess>(command, setting.environment);
    ask_torch(*process, 5);
    const double images_per_second = ask_torch(*process, options.steps / 2 + 1);
    std::printf("pytorch %s: %.0f images/s\n", setting.name.c_str(), images_per_second);
    if (images_per_second <= most) continue;
    most = images_per_second;
    best = {std::move(process), setting.name};
  }
  return best;
}

void run_case(const TrainOptions& options, int workers) {
  const CoreLimit limit(workers);
  HeddleSubject heddle(workers, options.batch);
  bench::Case the_case{"train", "cnn", "images/s", workers, {}};
  the_case.subjects.push_back({"heddle", [&] { return heddle.run(options.steps); }});
  Torch torch;
  if (options.torch) {
    try {
      torch = start_torch(options, workers);
      the_case.subjects.push_back({"pytorch", [&] { return ask_torch(*torch.process, options.steps); }});
    } catch (const std::runtime_error& error) {
      std::printf("no pytorch beside us: %s\n", error.what());
    }
  }
  const std::vector<bench::Result> results = bench::measure(the_case, options.common);
  std::printf("%d worker%s, on as many cores:\n", workers, workers == 1 ? "" : "s");
  bench::print_table(results, [&](const bench::Result& result) {
    return result.subject == "pytorch" ? torch.setting : std::string();
  });
  bench::append_json(results, options.common);
}

}  // namespace

int main(int argc, char** argv) {
  TrainOptions options;
  options.common.workers = {1, 2};
  CLI::App app("How fast a convolutional network trains: Heddle beside PyTorch");
  bench::add_options(app, options.common);
  app.add_option("--batch", options.batch, "images a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  const auto* steps = app.add_option("--steps", options.steps, "steps a measured run")
                          ->capture_default_str()
                          ->check(CLI::Range(1, 1000000));
  app.add_flag("--torch,!--no-torch", options.torch, "run PyTorch beside us (the default)");
  app.add_option("--python", options.python, "the Python that can import torch")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.common.quick && steps->count() == 0) options.steps = 20;
  if (std::string("cnn").find(options.common.filter) == std::string::npos) return EXIT_SUCCESS;
  try {
    for (int workers : options.common.workers) run_case(options, workers);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
