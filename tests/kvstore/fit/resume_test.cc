// A run that is resumed, at any step, is the run that was never interrupted: weights, history, callbacks.
#include <algorithm>
#include <cmath>
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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<AnyCallback> watching(FitCapture capture) {
  AnyCallback rates = ReduceOnPlateau({.factor = 0.5, .min_delta = 0.2, .patience = 0});
  if (capture == FitCapture::never)
    rates = LearningRateScheduler([](std::int64_t epoch, double lr) { return epoch == 0 ? lr : lr * 0.9; });
  return {EarlyStopping({.patience = 1, .restore_best = true}), rates};
}

}  // namespace

TEST_CASE("fit: a run that is resumed from any step equals one that never stopped") {
  TemporaryDirectory directory;
  const auto options = [&](const FitProgram& program, FitCapture capture) {
    FitOptions all = program.options(4);
    all.metrics = {"accuracy", "f1"};
    all.capture = capture;
    all.callbacks = watching(capture);
    return all;
  };
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    FitProgram straight;
    FitOptions all = options(straight, capture);
    all.callbacks.push_back(std::make_shared<ModelCheckpoint>(
        directory.file("{step}"), ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1}));
    const History wanted = straight.fit(all);
    const FitResult result = straight.result(wanted);
    for (const std::int64_t step : {1, 5, 6, 7, 11, 12}) {
      CAPTURE(step);
      FitProgram again;
      manual_seed(99);
      default_generator().set_position(1234);
      for (const Parameter& one : again.net.state()) one.value.detach().fill(3);
      FitOptions rest = options(again, capture);
      rest.resume = directory.file(std::to_string(step));
      REQUIRE(std::filesystem::exists(rest.resume));
      const History history = again.fit(rest);
      CHECK(history.epochs == wanted.epochs);
      CHECK(again.result(history) == result);
      CHECK(history.stopped == wanted.stopped);
    }
  }
}

TEST_CASE("fit: a run that a callback has ended is not continued, and a missing file is a beginning") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(5);
  all.resume = directory.file("run");
  auto stops = std::make_shared<TestCallback>();
  stops->epoch_end = [](FitRun& run, const FitValues&) {
    if (run.epoch() == 1) run.stop("enough");
  };
  all.callbacks = {stops, std::make_shared<ModelCheckpoint>(directory.file("run"))};
  const FitResult result = program.result(program.fit(all));
  FitProgram again;
  const History history = again.fit(all);
  CHECK(history.stopped == "enough");
  CHECK(again.result(history) == result);
  CHECK(history["loss"].size() == 2);
}

TEST_CASE("fit: a log of a resumed run has each epoch once") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(3);
  const auto csv = std::make_shared<CsvLogger>(directory.file("log.csv"));
  all.callbacks = {csv, std::make_shared<ModelCheckpoint>(directory.file("{epoch}"))};
  program.fit(all);
  const std::string whole = read_file(directory.file("log.csv"));
  FitProgram again;
  all = again.options(3);
  all.callbacks = {csv};
  all.resume = directory.file("1");
  again.fit(all);
  CHECK(read_file(directory.file("log.csv")) == whole);
}

TEST_CASE("fit: two ranks resume within an epoch, and between epochs with another number of ranks") {
  TemporaryDirectory directory;
  const auto run = [&](int size, const std::string& resume, bool saves) {
    const auto ranks = Communicator::create_local(size);
    std::vector<FitResult> results(ranks.size());
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back([&, rank] {
        FitProgram program(
            {.params = {{"lr", 0.1}, {"momentum", 0.9}}, .store = KVStore::create("allreduce", ranks[rank])});
        default_generator() = Generator(5).jumped(static_cast<std::int64_t>(rank));
        FitOptions all = program.options(2);
        all.resume = resume;
        if (saves)
          all.callbacks = {std::make_shared<ModelCheckpoint>(directory.file("{step}"),
                                                             ModelCheckpointOptions{.every_steps = 3})};
        errors[rank] = message_of([&] { results[rank] = program.result(program.fit(all)); });
      });
    }
    for (std::thread& one : threads) one.join();
    CHECK(results[0].values == results.back().values);
    return std::pair(results, errors[0]);
  };
  const auto wanted = run(2, "", true);
  CHECK(wanted.second == "no error");
  for (const char* step : {"3", "9"}) {
    const auto again = run(2, directory.file(step), false);
    CHECK(again.second == "no error");
    CHECK(again.first[0] == wanted.first[0]);
    CHECK(again.first[1] == wanted.first[1]);
  }
  CHECK(run(1, directory.file("6"), false).second == "no error");
  CHECK(contains(run(1, directory.file("3"), false).second, "by 2 ranks, and there are 1"));
}

TEST_CASE("fit: what cannot be resumed is refused") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(1);
  Generator other(1);
  save_checkpoint(directory.file("plain"), {.parameters = program.net.state(), .trainer = &program.trainer});
  all.resume = directory.file("plain");
  CHECK(contains(message_of([&] { program.fit(all); }), "has no 'counter.fit.batch'"));
  all.resume = "";
  all.callbacks = {std::make_shared<ModelCheckpoint>(directory.file("run"))};
  program.fit(all);
  all.resume = directory.file("run");
  all.generators = {{"noise", &other}};
  FitProgram fresh;
  fresh.fit(fresh.options(2));
  const FitResult before = fresh.result({});
  CHECK(contains(message_of([&] { fresh.fit(all); }), "has no generator 'noise'"));
  CHECK(fresh.result({}) == before);
  all.generators = {};
  all.resume = std::string(5000, 'x');
  CHECK(contains(message_of<Error>([&] { program.fit(all); }), "cannot be read"));
}

TEST_CASE("ModelCheckpoint: files that a killed run has written later are not kept beside the last ones") {
  TemporaryDirectory directory;
  FitProgram program, again;
  FitOptions all = program.options(5);
  all.callbacks = {std::make_shared<ModelCheckpoint>(directory.file("{epoch}.run"))};
  program.fit(all);
  all = again.options(3);
  all.callbacks = {
      std::make_shared<ModelCheckpoint>(directory.file("{epoch}.run"), ModelCheckpointOptions{.keep = 1})};
  all.resume = directory.file("2.run");
  again.fit(all);
  for (const std::string number : {"3", "4", "5"})
    CHECK(std::filesystem::exists(directory.file(number + ".run")) == (number == "3"));
  CHECK(std::filesystem::exists(directory.file("1.run")));
}

TEST_CASE("fit: a callback without a state is counted among those of its class") {
  struct Named : Callback {
    double number = 0;
    explicit Named(double first) : number(first) {}
    std::string name() const override { return "Named"; }
    CallbackState state() const override {
      return number == 0 ? CallbackState() : CallbackState{.numbers = {{"number", number}}};
    }
    void set_state(const CallbackState& state) override { number = state.numbers.at("number"); }
  };
  TemporaryDirectory directory;
  FitProgram program, again;
  FitOptions all = program.options(1);
  all.callbacks = {std::make_shared<Named>(0), std::make_shared<Named>(5),
                   std::make_shared<ModelCheckpoint>(directory.file("run"))};
  program.fit(all);
  const auto first = std::make_shared<Named>(0), second = std::make_shared<Named>(0);
  all = again.options(2);
  all.callbacks = {first, second};
  all.resume = directory.file("run");
  again.fit(all);
  CHECK(first->number == 0);
  CHECK(second->number == 5);
}

TEST_CASE("fit: a run that is resumed with other metrics has NaN for those of other epochs") {
  TemporaryDirectory directory;
  FitProgram program, again;
  FitOptions all = program.options(2);
  all.validation = {};
  all.callbacks = {std::make_shared<CsvLogger>(directory.file("log.csv")),
                   std::make_shared<ModelCheckpoint>(directory.file("run"))};
  const History before = program.fit(all);
  all.metrics = {"f1"};
  all.epochs = 3;
  all.resume = directory.file("run");
  const History history = again.fit(all);
  REQUIRE(history["accuracy"].size() == 3);
  REQUIRE(history["f1"].size() == 3);
  CHECK(history["accuracy"][1] == before["accuracy"][1]);
  CHECK(std::isnan(history["accuracy"][2]));
  CHECK(std::isnan(history["f1"][1]));
  CHECK_FALSE(std::isnan(history["f1"][2]));
  const std::string csv = read_file(directory.file("log.csv"));
  CHECK(csv.starts_with("epoch,loss,f1,lr,accuracy\n1,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  CHECK(contains(csv, ",,"));
  CHECK(csv.ends_with(",\n"));
}
