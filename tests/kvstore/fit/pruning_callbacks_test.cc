// Pruning in trainings by fit().
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <files.h>
#include <memory>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::int64_t kWeights = 6 * 16 + 16 * 2;

// A run of `epochs` with masks that grow to 0.75.
FitResult gradual_run(FitProgram& program, FitOptions options, std::vector<double>* sparsities = nullptr) {
  Pruning pruning(program.net, {.sparsity = 0});
  options.callbacks.push_back(GradualPruning(
      pruning, {.final_sparsity = 0.75, .initial_sparsity = 0.1, .begin = 2, .end = 11, .every = 3}));
  const auto watch = std::make_shared<TestCallback>();
  watch->batch_end = [&](FitRun&) {
    if (sparsities) sparsities->push_back(pruning.report().sparsity());
  };
  options.callbacks.push_back(watch);
  return program.result(program.fit(options));
}

}  // namespace

TEST_CASE("fit: what is pruned stays 0, in captured steps too") {
  std::vector<FitResult> results;
  for (const FitCapture capture : {FitCapture::always, FitCapture::never}) {
    FitProgram program;
    Pruning pruning(program.net, {.sparsity = 0.5});
    const std::vector<float> mask = pruning.masks()[0].value.to_vector<float>();
    FitOptions options = program.options(2);
    options.capture = capture;
    options.callbacks = {KeepPruned(pruning)};
    results.push_back(program.result(program.fit(options)));
    CHECK(pruning.report().zeros() == kWeights / 2);
    const std::vector<float> weight = program.net.state()[0].value.detach().to_vector<float>();
    for (std::size_t i = 0; i < mask.size(); ++i) CHECK((weight[i] == 0) == (mask[i] == 0));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("a captured step keeps zeros, and takes masks that are chosen later") {
  Generator generator(1);
  Sequential net{Dense(4, 8, {.relu = true}, generator), Dense(8, 2, {}, generator)};
  Trainer trainer(net.parameters(), {.optimizer = "adam", .schedule = constant_schedule(0.05)});
  Pruning pruning(net, {.sparsity = 0.5});
  CapturedStep step = trainer.capture([&](const std::vector<NDArray>& batch) {
    const NDArray loss = cross_entropy(net(batch[0]), batch[1]);
    backward(loss);
    trainer.step();
    pruning.apply();
    return loss;
  });
  for (int i = 0; i < 8; ++i) {
    const NDArray x = generator.normal({8, 4});
    if (i == 5) pruning.prune(0.75);
    step({x, cast(sum(x, {1}) > 0, DType::i64)});
    CHECK(pruning.report().sparsity() == (i < 5 ? 0.5 : 0.75));
  }
}

TEST_CASE("fit: sparsity grows by steps") {
  FitProgram program;
  std::vector<double> found;
  gradual_run(program, program.options(3), &found);
  const GradualSparsity wanted{
      .final_sparsity = 0.75, .initial_sparsity = 0.1, .begin = 2, .end = 11, .every = 3};
  REQUIRE(found.size() == 18);
  double now = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i + 1);
    if (step == 2 || step == 5 || step == 8 || step == 11) now = wanted.at(step);
    CAPTURE(step);
    CHECK(std::llround(found[i] * kWeights) == std::llround(now * kWeights));
  }
}

TEST_CASE("fit: a run with pruning that is resumed is the run that never stopped") {
  TemporaryDirectory directory;
  FitProgram straight;
  FitOptions all = straight.options(3);
  all.callbacks.push_back(std::make_shared<ModelCheckpoint>(
      directory.file("{step}"), ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1}));
  const FitResult wanted = gradual_run(straight, all);
  for (const std::int64_t step : {1, 6, 13}) {
    CAPTURE(step);
    FitProgram again;
    FitOptions rest = again.options(3);
    rest.callbacks.push_back(std::make_shared<ModelCheckpoint>(
        directory.file("again{step}"), ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1}));
    rest.resume = directory.file(std::to_string(step));
    CHECK(gradual_run(again, rest) == wanted);
  }
}

TEST_CASE("GradualPruning refuses numbers out of range") {
  Sequential net{Dense(3, 2)};
  const Pruning pruning(net, {.sparsity = 0});
  const auto refusal = [&](const GradualSparsity& sparsity) {
    return message_of<InvalidArgument>([&] { GradualPruning(pruning, sparsity); });
  };
  CHECK(refusal({.final_sparsity = 2}) == "GradualPruning: a sparsity is 2; want 0 to 1");
  CHECK(refusal({.begin = 5, .end = 5}) ==
        "GradualPruning: steps from 5 to 5, every 100; want a first one of 0 or more, a later last one, and "
        "1 or more");
}

TEST_CASE("fit: what is pruned stays so while sparsity grows") {
  FitProgram program;
  Pruning pruning(program.net, {.sparsity = 0});
  std::vector<float> before;
  int revived = 0;
  const auto watch = std::make_shared<TestCallback>();
  watch->batch_end = [&](FitRun&) {
    std::vector<float> masks;
    for (const Parameter& one : pruning.masks())
      for (const float value : one.value.to_vector<float>()) masks.push_back(value);
    for (std::size_t i = 0; i < before.size(); ++i) revived += before[i] == 0 && masks[i] != 0;
    before = masks;
  };
  FitOptions options = program.options(4);
  options.callbacks = {GradualPruning(pruning, {.final_sparsity = 0.9, .end = 12, .every = 1}), watch};
  program.result(program.fit(options));
  CHECK(revived == 0);
  CHECK(std::count(before.begin(), before.end(), 0.0f) == std::llround(0.9 * kWeights));
}

TEST_CASE("fit: a Pruning of other weights, and one of neighbours that was to grow, are refused") {
  FitProgram program, other;
  FitOptions options = program.options(1);
  options.callbacks = {KeepPruned(Pruning(other.net))};
  const std::string message = message_of<InvalidArgument>([&] { program.fit(options); });
  CHECK(message.find("of its Pruning is none of the network's; make a new Pruning once layers have been "
                     "replaced") != std::string::npos);
  Pruning neighbours(program.net, {.keep = 1, .of = 2});
  CHECK(message_of<InvalidArgument>([&] { GradualPruning(neighbours, {}); }) ==
        "GradualPruning: its Pruning keeps 1 of 2 whatever the sparsity; want a Pruning without `of`");
}
