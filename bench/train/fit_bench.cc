// What fit() costs over a loop by hand: its callbacks, and a checkpoint at every step.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <heddle/heddle.h>

#include "command_line.h"
#include "support/support.h"
#include "train/train_network.h"

namespace {

using namespace heddle;

struct FitBenchOptions {
  bench::Options common;
  std::int64_t batch = 64;
  int steps = 60;
};

// A network with a trainer and data of its own.
struct Training {
  Sequential net;
  bench::TrainData data;
  Trainer trainer;
  std::int64_t epochs = 0;
  Training(Sequential of, std::int64_t rows)
      : net(std::move(of)),
        data(rows),
        trainer(net.parameters(), {.optimizer = "sgd", .params = {{"lr", 0.01}, {"momentum", 0.9}}}) {}
};

Sequential perceptron() {
  return Sequential{Flatten(), Dense(784, 256, {.relu = true}), Dense(256, 128, {.relu = true}),
                    Dense(128, 10)};
}

Sequential convolutional() {
  return Sequential{Conv2d(1, 32, 3, {.padding = 1, .relu = true}),
                    MaxPool2d(2),
                    Conv2d(32, 64, 3, {.padding = 1, .relu = true}),
                    MaxPool2d(2),
                    Flatten(),
                    Dense(3136, 128, {.relu = true}),
                    Dense(128, 10)};
}

// Milliseconds a step of a captured loop by hand.
double run_loop(Training& training, std::int64_t batch, int steps) {
  CapturedStep step = training.trainer.capture([&](const std::vector<NDArray>& arrays) {
    const NDArray loss = cross_entropy(training.net(arrays[0]), arrays[1]);
    backward(loss);
    training.trainer.step();
    return loss;
  });
  ArrayBatches batches({training.data.images, training.data.labels}, {.batch = batch});
  std::vector<NDArray> ahead;
  current_engine().wait_all();
  const double start = bench::now();
  for (int done = 0; done < steps;) {
    batches.start(0);
    for (auto one = batches.next(); !one.empty() && done < steps; one = batches.next(), ++done) {
      ahead.push_back(step(one));
      if (ahead.size() > 4) ahead[ahead.size() - 5].wait();
    }
  }
  current_engine().wait_all();
  return (bench::now() - start) * 1e3 / steps;
}

double run_fit(Training& training, std::int64_t batch, int steps, const std::vector<AnyCallback>& callbacks) {
  FitOptions options;
  options.loss = "cross_entropy";
  options.batch = batch;
  options.shuffle = options.verbose = false;
  options.epochs = steps * batch / training.data.images.shape()[0];
  options.callbacks = callbacks;
  current_engine().wait_all();
  const double start = bench::now();
  fit(training.net, training.trainer, {training.data.images, training.data.labels}, options);
  current_engine().wait_all();
  return (bench::now() - start) * 1e3 /
         static_cast<double>(options.epochs * training.data.images.shape()[0] / batch);
}

void run_case(const FitBenchOptions& options, const std::string& name, const std::function<Sequential()>& net,
              int workers) {
  const bench::CoreLimit limit(0, workers);
  Engine engine({.workers = workers});
  const EngineScope scope(engine);
  const std::string directory = (std::filesystem::temp_directory_path() / "heddle-fit-bench").string();
  std::filesystem::create_directories(directory);
  const auto silent = [](std::string_view) {};
  std::vector<std::unique_ptr<Training>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Training>(net(), 20 * options.batch));
  bench::Case the_case{"fit", name, "ms a step", workers, {}};
  the_case.subjects = {
      {"loop", [&] { return run_loop(*all[0], options.batch, options.steps); }},
      {"fit", [&] { return run_fit(*all[1], options.batch, options.steps, {}); }},
      {"callbacks",
       [&] {
         return run_fit(
             *all[2], options.batch, options.steps,
             {std::make_shared<Progress>(ProgressOptions{.write = silent, .terminal = true}),
              std::make_shared<CsvLogger>(directory + "/log.csv"),
              std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "loss", .patience = 1000}),
              std::make_shared<ReduceOnPlateau>(
                  ReduceOnPlateauOptions{.monitor = "loss", .patience = 1000})});
       }},
      {"checkpoints", [&] {
         return run_fit(
             *all[3], options.batch, options.steps,
             {std::make_shared<ModelCheckpoint>(
                 directory + "/run", ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1})});
       }}};
  const std::vector<bench::Result> results = bench::measure(the_case, options.common);
  std::printf("%s, batch %lld, %d worker%s:\n", name.c_str(), static_cast<long long>(options.batch), workers,
              workers == 1 ? "" : "s");
  bench::print_table(results);
  bench::append_json(results, options.common);
  std::filesystem::remove_all(directory);
}

}  // namespace

int main(int argc, char** argv) {
  FitBenchOptions options;
  options.common.workers = {1, 2};
  heddle::command_line::Program app("fit_bench",
                                    "What fit() costs: callbacks, and a checkpoint at every step");
  bench::add_options(app, options.common);
  app.add_option("--batch", options.batch, "images a step").show_default().range(1, 65536);
  app.add_option("--steps", options.steps, "steps a measured run, a multiple of 20")
      .show_default()
      .range(20, 1000000);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    for (const int workers : options.common.workers) {
      for (const auto& [name, net] :
           {std::pair<std::string, std::function<Sequential()>>{"mlp", perceptron}, {"cnn", convolutional}})
        if (name.find(options.common.filter) != std::string::npos) run_case(options, name, net, workers);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fit_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
