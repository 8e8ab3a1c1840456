// A run that is resumed, at any step, is the run that was never interrupted: weights, history, callbacks.
#include <algorithm>
#include <cmath>
#include <files.h>
#include <filesystem>
#include <iterator>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "files/atomic_file.h"
#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

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

  // Told to go on, it does the epochs that are left, as a run that nobody has ended.
  FitProgram straight, continued;
  const FitResult wanted = straight.result(straight.fit(straight.options(5)));
  all.callbacks = {};
  all.resume_stopped = true;
  const History whole = continued.fit(all);
  CHECK(whole.stopped == "");
  CHECK(continued.result(whole) == wanted);
}

TEST_CASE(
    "fit: a run that was ended within an epoch is finished from a checkpoint of that step, else it stops "
    "there again") {
  TemporaryDirectory directory;
  const auto options = [&](const FitProgram& program) {
    FitOptions all = program.options(3);
    const auto stops = std::make_shared<TestCallback>();
    stops->batch_end = [](FitRun& run) {
      if (run.step() == 8) run.stop("eight steps");
    };
    all.callbacks = {stops};
    return all;
  };
  FitProgram program;
  FitOptions all = options(program);
  all.callbacks.push_back(std::make_shared<ModelCheckpoint>(
      directory.file("{step}"), ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1}));
  const FitResult wanted = program.result(program.fit(all));
  CHECK(wanted.steps == 8);
  for (const std::string from : {"5", "8"}) {
    FitProgram again;
    all = options(again);
    int begun = 0;
    const auto counts = std::make_shared<TestCallback>();
    counts->batch_begin = [&](FitRun&) { ++begun; };
    all.callbacks.push_back(counts);
    all.resume = directory.file(from);
    const History history = again.fit(all);
    CHECK(history.stopped == "eight steps");
    CHECK(again.result(history) == wanted);
    CHECK(begun == (from == "5" ? 3 : 0));
  }
}

TEST_CASE("fit: the newest of several checkpoints is found by the number in its name") {
  TemporaryDirectory directory;
  FitProgram straight, program, again;
  const FitResult wanted = straight.result(straight.fit(straight.options(4)));
  manual_seed(7);
  FitOptions all = program.options(2);
  const std::string pattern = directory.file("run+{epoch}-{val_loss}.heddle");
  all.resume = pattern;  // there is none
  all.callbacks = {std::make_shared<ModelCheckpoint>(pattern)};
  program.fit(all);
  write_file(directory.file("run+3-.heddle"), "of somebody else");
  write_file(directory.file("xrun+3-0.5000.heddle"), "of somebody else");
  all = again.options(4);
  all.resume = pattern;
  CHECK(again.result(again.fit(all)) == wanted);
  all.resume = directory.file("{val_loss}");
  CHECK(contains(message_of<InvalidArgument>([&] { again.fit(all); }),
                 "want a path, or one with {epoch} or {step}"));
}

TEST_CASE(
    "ModelCheckpoint: what writers that were killed have left is removed when a training begins, and nothing "
    "else") {
  TemporaryDirectory directory;
  // The name of this host's temporary files, from one that is being written.
  std::string mark;
  {
    const AtomicFile probe(directory.file("probe"));
    for (const auto& one : std::filesystem::directory_iterator(directory.path)) {
      const std::string name = one.path().filename().string();
      mark = name.substr(5, name.find('-', 10) - 4);
    }
  }
  REQUIRE(mark.starts_with(".tmp-"));
  const AtomicFile living(directory.file("7.run"));  // that a process has open
  const std::vector<std::string> left{"3.run" + mark + "4000000000-0", "12.run" + mark + "4000000000-1",
                                      "12.run.residuals-12-0-of-2" + mark + "4000000000-2",
                                      "stopped" + mark + "4000000000-3"};
  const std::vector<std::string> kept{"3.run.tmp-1",
                                      "x.run" + mark + "4000000000-0",
                                      "3.run.tmp-00000000-7-0",
                                      "3.runs" + mark + "4000000000-0",
                                      "3.run" + mark + "4000000000-0.txt",
                                      "4.run"};
  for (const auto* names : {&left, &kept})
    for (const std::string& name : *names) write_file(directory.file(name), "text");
  FitProgram program;
  FitOptions all = program.options(0);
  all.callbacks = {std::make_shared<ModelCheckpoint>(directory.file("{step}.run"))};
  all.save_on_interrupt = directory.file("stopped");
  program.fit(all);
  for (const std::string& name : left) CHECK_FALSE(std::filesystem::exists(directory.file(name)));
  for (const std::string& name : kept) CHECK(std::filesystem::exists(directory.file(name)));
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path), {}) == std::ssize(kept) + 1);
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

TEST_CASE("fit: a resume that fails leaves callbacks as they were") {
  struct Numbered : Callback {
    double number = 0;
    bool refuses = false;
    NDArray values = zeros({2});
    std::string name() const override { return "Numbered"; }
    CallbackState state() const override {
      return {.numbers = {{"number", number}}, .arrays = {{"v", values}}};
    }
    void set_state(const CallbackState& state) override {
      number = state.numbers.at("number");
      values.assign(state.arrays.at("v"));  // in place
      if (refuses && number == 5) throw InvalidArgument("refused");
    }
  };
  TemporaryDirectory directory;
  const auto run = [&](int size, bool resumes) {
    const auto ranks = Communicator::create_local(size);
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        errors[rank] = message_of([&] {
          FitProgram program({.params = {{"lr", 0.1}}, .store = KVStore::create("allreduce", ranks[rank])});
          Pruning pruning(program.net, {.sparsity = resumes ? 0.0 : 0.9});
          const auto first = std::make_shared<Numbered>(), last = std::make_shared<Numbered>();
          first->number = last->number = resumes ? 1 : 5;
          first->values.fill(first->number);
          last->refuses = resumes && rank + 1 == ranks.size();
          FitOptions all = program.options(2);
          all.callbacks = {first, KeepPruned(pruning), last};
          if (!resumes) all.callbacks.push_back(std::make_shared<ModelCheckpoint>(directory.file("run")));
          if (!resumes) return void(program.fit(all));
          all.resume = directory.file("run");
          const std::string message = message_of([&] { program.fit(all); });
          CHECK(contains(message, "refused"));
          for (const auto& one : {first, last}) CHECK(one->number == 1);
          CHECK(first->values.to_vector<float>() == std::vector<float>{1, 1});
          CHECK(pruning.report().zeros() == 0);
          all.resume = "";
          program.fit(all);
          CHECK(pruning.report().zeros() == 0);
        });
      });
    for (std::thread& one : threads) one.join();
    CHECK(errors == std::vector<std::string>(ranks.size(), "no error"));
  };
  for (const int size : {1, 2}) {
    run(size, false);
    run(size, true);
  }
}
