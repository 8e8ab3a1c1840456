// A training for the tests of fit(): points of two classes, and what is left of a run to compare.
#pragma once

#include <functional>
#include <memory>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <heddle/heddle.h>

namespace heddle::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::vector<std::vector<float>> arrays_of(const std::vector<Parameter>& all) {
  std::vector<std::vector<float>> values;
  for (const Parameter& one : all) values.push_back(one.value.astype(DType::f32).to_vector<float>());
  return values;
}

// Calls body(rank, store) on a thread for each of two ranks; returns the messages of what the calls have thrown.
inline std::vector<std::string> on_two_ranks(
    const std::function<void(std::size_t, std::shared_ptr<KVStore>)>& body,
    const KVStoreOptions& options = {}) {
  const auto ranks = Communicator::create_local(2);
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      errors[rank] = message_of([&] { body(rank, KVStore::create("allreduce", ranks[rank], options)); });
    });
  for (std::thread& one : threads) one.join();
  return errors;
}

inline const std::vector<std::string> kNone(2, "no error");  // on_two_ranks()

// Everything that two runs must have in common, bit for bit.
struct FitResult {
  std::vector<std::vector<float>> state{};  // parameters, statistics and the optimizer's arrays
  std::map<std::string, std::vector<double>> values{};
  std::int64_t steps = 0;
  bool operator==(const FitResult&) const = default;
};

struct FitProgram {
  Generator initial{1};
  NDArray x = Generator(2).normal({90, 6});
  NDArray labels = cast(sum(x, {1}) > 0, DType::i64);
  NDArray other_x = Generator(3).normal({37, 6});
  NDArray other_labels = cast(sum(other_x, {1}) > 0, DType::i64);
  Sequential net{Dense(6, 16, {.relu = true}, initial), BatchNorm(16), Dropout(0.2),
                 Dense(16, 2, {}, initial)};
  Trainer trainer;

  explicit FitProgram(TrainerOptions options = {.optimizer = "adam", .schedule = cosine_schedule(0.02, 60)})
      : trainer(net.parameters(), std::move(options)) {
    manual_seed(7);
  }

  FitOptions options(std::int64_t epochs = 3) const {
    FitOptions all;
    all.loss = "cross_entropy";
    all.metrics = {"accuracy"};
    all.epochs = epochs;
    all.validation = {other_x, other_labels};
    all.verbose = false;
    all.batch = 16;
    all.seed = 11;
    return all;
  }
  History fit(FitOptions all) { return heddle::fit(net, trainer, {x, labels}, std::move(all)); }

  FitResult result(const History& history) const {
    FitResult all{.values = history.values, .steps = trainer.steps()};
    for (const Parameter& one : net.state())
      all.state.push_back(one.value.astype(DType::f32).to_vector<float>());
    for (const auto& [name, value] : trainer.state())
      all.state.push_back(value.astype(DType::f32).to_vector<float>());
    return all;
  }
};

// Calls functions of the test at events.
struct TestCallback : Callback {
  std::function<void(FitRun&)> batch_begin{}, batch_end{}, epoch_begin{}, train_begin{}, last_step{},
      train_end{};
  std::function<void(FitRun&)> validation_begin{}, validation_end{}, interrupt{};
  std::function<void(FitRun&, const FitValues&)> epoch_end{};
  void on_train_begin(FitRun& run) override { call(train_begin, run); }
  void on_last_step(FitRun& run) override { call(last_step, run); }
  void on_train_end(FitRun& run) override { call(train_end, run); }
  void on_epoch_begin(FitRun& run) override { call(epoch_begin, run); }
  void on_epoch_end(FitRun& run, const FitValues& values) override {
    if (epoch_end) epoch_end(run, values);
  }
  void on_batch_begin(FitRun& run) override { call(batch_begin, run); }
  void on_batch_end(FitRun& run) override { call(batch_end, run); }
  void on_validation_begin(FitRun& run) override { call(validation_begin, run); }
  void on_validation_end(FitRun& run) override { call(validation_end, run); }
  void on_interrupt(FitRun& run) override { call(interrupt, run); }

 private:
  static void call(const std::function<void(FitRun&)>& function, FitRun& run) {
    if (function) function(run);
  }
};

// Calls `use` after each step whose number in the run is `step`.
inline std::shared_ptr<TestCallback> at_step(std::int64_t step, std::function<void(FitRun&)> use) {
  auto callback = std::make_shared<TestCallback>();
  callback->batch_end = [step, use = std::move(use)](FitRun& run) {
    if (run.step() == step) use(run);
  };
  return callback;
}

}  // namespace heddle::test
