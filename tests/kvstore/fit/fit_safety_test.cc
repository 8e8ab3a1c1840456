// fit(): values at the end of an epoch, Ctrl-C at every place, ranks without data, and what is refused.
#include <cmath>
#include <csignal>
#include <files.h>
#include <filesystem>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

void raise_interrupt(FitRun&) { std::raise(SIGINT); }

}  // namespace

TEST_CASE("fit: in a validation and at the end of an epoch values are those of the training") {
  FitProgram program;
  std::vector<double> losses, accuracies;
  const auto note = [&](FitRun& run) {
    losses.push_back(run.value("loss").item<double>());
    accuracies.push_back(run.value("accuracy").item<double>());
    run.later({"loss"}, [&](const FitValues& values) { losses.push_back(values.at("loss")); });
  };
  const auto watch = std::make_shared<TestCallback>();
  watch->validation_begin = watch->validation_end = note;
  watch->epoch_end = [&](FitRun& run, const FitValues& values) {
    note(run);
    for (const double accuracy : accuracies) CHECK(accuracy == values.at("accuracy"));
    CHECK(values.at("accuracy") != values.at("val_accuracy"));
  };
  FitOptions all = program.options(1);
  all.callbacks = {watch};
  const History history = program.fit(all);
  CHECK(losses == std::vector<double>(6, history["loss"][0]));
}

TEST_CASE("fit: of two ranks one has no rows to validate, and clipping is refused") {
  const auto ranks = Communicator::create_local(2);
  std::vector<FitValues> values(2);
  std::vector<std::string> errors(2), refusals(2), auc(2);
  const auto run = [&](std::size_t rank) {
    FitProgram program({.store = KVStore::create("allreduce", ranks[rank])});
    FitOptions all = program.options(1);
    all.metrics = {"accuracy", "f1"};
    all.validation = {program.other_x.slice(0, {0, 1}), program.other_labels.slice(0, {0, 1})};
    errors[rank] = message_of([&] {
      for (const auto& [name, series] : program.fit(all).values) values[rank][name] = series[0];
    });
    all.clip_norm = 1;
    refusals[rank] = message_of<InvalidArgument>([&] { program.fit(all); });
    all.clip_norm = 0;
    all.metrics = {std::make_shared<Auc>()};
    auc[rank] = message_of<InvalidArgument>([&] { program.fit(all); });
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(errors == std::vector<std::string>(2, "no error"));
  CHECK(values[0] == values[1]);
  CHECK((values[0].at("val_accuracy") == 0 || values[0].at("val_accuracy") == 1));
  for (const std::string& refusal : refusals)
    CHECK(contains(refusal, "clip_norm and clip_value are for one worker, and the store has 2"));
  for (const std::string& refusal : auc) CHECK(contains(refusal, "want an Auc with bins"));
}

TEST_CASE("Ctrl-C: in a validation, which a resumed run makes anew, and at the very end") {
  TemporaryDirectory directory;
  std::signal(SIGINT, SIG_DFL);
  FitProgram straight, program, again;
  const FitResult wanted = straight.result(straight.fit(straight.options(2)));
  manual_seed(7);
  FitOptions all = program.options(2);
  all.save_on_interrupt = directory.file("run");
  const auto watch = std::make_shared<TestCallback>();
  watch->validation_begin = [](FitRun& run) {
    if (run.epoch() == 1) std::raise(SIGINT);
  };
  History inner;
  watch->interrupt = [&](FitRun&) {  // a fit that begins now is not interrupted
    FitProgram small;
    inner = small.fit(small.options(1));
  };
  all.callbacks = {watch};
  const History history = program.fit(all);
  CHECK(history.interrupted);
  CHECK(history["val_loss"].size() == 1);
  CHECK_FALSE(inner.interrupted);
  CHECK(inner["loss"].size() == 1);
  manual_seed(3);
  all = again.options(2);
  all.resume = directory.file("run");
  CHECK(again.result(again.fit(all)) == wanted);

  const auto late = std::make_shared<TestCallback>();
  late->train_end = raise_interrupt;
  all = again.options(1);
  all.callbacks = {late};
  CHECK(again.fit(all).interrupted);
}

TEST_CASE("fit: an exception that is an interrupt saves, from a callback, a loss and data") {
  struct Stop {};
  struct StoppingBatches : ArrayBatches {
    using ArrayBatches::ArrayBatches;
    int left = -1;
    std::vector<NDArray> next() override {
      if (left-- == 0) throw Stop();
      return ArrayBatches::next();
    }
  };
  TemporaryDirectory directory;
  const auto options = [&](const FitProgram& program) {
    FitOptions all = program.options(2);
    all.loss = {
        LossTerm::Function([](const NDArray& y, const NDArray& label) { return cross_entropy(y, label); })};
    all.accumulate = 2;
    all.is_interrupt = [] {
      try {
        throw;
      } catch (const Stop&) {
        return true;
      } catch (...) {
        return false;
      }
    };
    return all;
  };
  FitProgram straight;
  const FitResult wanted = straight.result(straight.fit(options(straight)));
  for (const std::string place : {"callback", "loss", "data"}) {
    CAPTURE(place);
    FitProgram program, again;
    FitOptions all = options(program);
    all.save_on_interrupt = directory.file(place);
    StoppingBatches batches({program.x, program.labels}, {.batch = 16, .shuffle = true, .seed = 11});
    int calls = 0;
    if (place == "callback") {
      const auto stops = std::make_shared<TestCallback>();
      stops->batch_end = [](FitRun& run) {
        if (run.step() == 2) throw Stop();
      };
      all.callbacks = {stops};
    } else if (place == "loss") {
      all.loss = {LossTerm::Function([&](const NDArray& y, const NDArray& label) {
        if (++calls == 4) throw Stop();
        return cross_entropy(y, label);
      })};
    } else {
      batches.left = 3;
    }
    CHECK_THROWS_AS(fit(program.net, program.trainer, batches, all), Stop);
    CHECK(program.trainer.steps() == (place == "callback" ? 2 : 1));
    REQUIRE(std::filesystem::exists(directory.file(place)));
    manual_seed(3);
    all = options(again);
    all.resume = directory.file(place);
    ArrayBatches same({again.x, again.labels}, {.batch = 16, .shuffle = true, .seed = 11});
    CHECK(again.result(fit(again.net, again.trainer, same, all)) == wanted);
  }
}

TEST_CASE("fit: names, paths and data that cannot be are refused before anything is trained") {
  FitProgram program;
  const auto refused = [&](const std::function<void(FitOptions&)>& change) {
    FitOptions all = program.options();
    change(all);
    return message_of<InvalidArgument>([&] { program.fit(all); });
  };
  CHECK(contains(refused([](FitOptions& all) { all.notes = {{"fit.stopped", "x"}}; }), "'fit.stopped'"));
  CHECK(contains(refused([](FitOptions& all) { all.metrics = {{"accuracy", 0, "lr"}}; }), "are called 'lr'"));
  CHECK(contains(refused([](FitOptions& all) {
                   all.metrics = {{"accuracy", 0, "val_loss"}};
                 }),
                 "are called 'val_loss'"));
  CHECK(contains(refused([](FitOptions& all) {
                   all.metrics = {{"accuracy", 0, "epoch"}};
                 }),
                 "is called 'epoch'"));
  CHECK(contains(refused([](FitOptions& all) {
                   const auto accuracy = std::make_shared<Accuracy>();
                   all.metrics = {{accuracy, 0, "a"}, {accuracy, 0, "b"}};
                 }),
                 "one Accuracy comes twice"));
  CHECK(contains(refused([](FitOptions& all) { all.labels = -7; }), "labels is -7"));
  CHECK(contains(refused([&](FitOptions& all) { all.validation = {program.other_x}; }),
                 "the validation has 1 arrays, and the data 2"));
  CHECK(contains(refused([&](FitOptions& all) {
                   all.validation = {zeros({0, 6}), zeros({0}, DType::i64)};
                 }),
                 "the validation has no rows"));
  CHECK(contains(refused([](FitOptions& all) { all.save_on_interrupt = std::string(5000, 'x'); }),
                 "File name too long"));
  CHECK(contains(refused([](FitOptions& all) { all.save_on_interrupt = "none/x"; }), "No such file"));
  CHECK(contains(refused([](FitOptions& all) { all.callbacks = {CsvLogger(std::string(5000, 'x'))}; }),
                 "File name too long"));
  CHECK(program.trainer.steps() == 0);
}
