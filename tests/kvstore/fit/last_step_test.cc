// What is saved after the last step, before callbacks give the network other weights.
#include <algorithm>
#include <files.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Names = std::vector<std::string>;

Names names_in(const std::string& folder) {
  Names names;
  for (const auto& one : std::filesystem::directory_iterator(folder))
    names.push_back(one.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::shared_ptr<TestCallback> stop_at(std::int64_t step) {
  return at_step(step, [](FitRun& run) { run.stop("enough"); });
}

// What a run that is resumed from a file begins with.
FitResult saved_in(const std::string& path) {
  FitProgram program;
  FitOptions all = program.options(3);
  FitResult found;
  const auto look = std::make_shared<TestCallback>();
  look->train_begin = [&](FitRun&) { found = program.result({}); };
  all.callbacks = {look};
  all.resume = path;
  program.fit(all);
  return found;
}

}  // namespace

TEST_CASE(
    "ModelCheckpoint: the last file has the weights of the last step, whatever EarlyStopping restores") {
  for (const bool is_first : {true, false}) {
    TemporaryDirectory directory;
    FitProgram program;
    FitOptions all = program.options(3);
    FitResult best, last;
    const auto watch = std::make_shared<TestCallback>();
    watch->epoch_end = [&](FitRun&, const FitValues&) { best = program.result({}); };
    watch->last_step = [&](FitRun&) { last = program.result({}); };
    const AnyCallback saves =
        ModelCheckpoint(directory.file("{step}"), {.every_epochs = 0, .every_steps = 5});
    const AnyCallback stopping = EarlyStopping({.monitor = "loss", .restore_best = true});
    all.callbacks = {watch, stop_at(8)};
    all.callbacks.insert(is_first ? all.callbacks.begin() : all.callbacks.end(), stopping);
    all.callbacks.insert(is_first ? all.callbacks.end() : all.callbacks.begin(), saves);
    program.fit(all);
    const FitResult after = program.result({});
    CHECK(last.steps == 8);
    CHECK(last.state != best.state);
    const auto parameters = static_cast<std::ptrdiff_t>(program.net.state().size());
    CHECK(std::equal(after.state.begin(), after.state.begin() + parameters, best.state.begin()));
    CHECK(names_in(directory.path) == Names{"5", "8"});
    CHECK(saved_in(directory.file("8")) == last);
  }
}

TEST_CASE("ModelCheckpoint: no more files than `keep` are left, also of a run that ends within an epoch") {
  for (const std::int64_t keep : {1, 2, 3}) {
    for (const std::int64_t stop : {9, 10}) {
      CAPTURE(keep);
      CAPTURE(stop);
      TemporaryDirectory alone, shared;
      const auto options = [&](const FitProgram& program, const TemporaryDirectory& directory) {
        FitOptions all = program.options(3);
        all.callbacks = {stop_at(stop), ModelCheckpoint(directory.file("0{step}"),
                                                        {.every_epochs = 0, .every_steps = 2, .keep = keep})};
        return all;
      };
      FitProgram program;
      program.fit(options(program, alone));
      Names wanted = stop == 9 ? Names{"04", "06", "08", "09"} : Names{"04", "06", "08", "010"};
      wanted.erase(wanted.begin(), wanted.end() - keep);
      std::sort(wanted.begin(), wanted.end());
      CHECK(names_in(alone.path) == wanted);
      // Ranks learn of a stop up to 16 steps later: at the end of the third epoch, of step 18.
      const auto errors = on_two_ranks([&](std::size_t, std::shared_ptr<KVStore> store) {
        FitProgram rank({.params = {{"lr", 0.1}}, .store = std::move(store)});
        rank.fit(options(rank, shared));
      });
      CHECK(errors == kNone);
      CHECK(names_in(shared.path).size() == static_cast<std::size_t>(keep));
    }
  }
}

TEST_CASE("ModelCheckpoint: the file at the end is of the last step, and of a run that was stopped") {
  TemporaryDirectory directory;
  for (const std::int64_t stop : {0, 8, 11}) {
    for (const std::int64_t every : {1, 4}) {
      CAPTURE(stop);
      CAPTURE(every);
      FitProgram program;
      FitOptions all = program.options(3);
      all.callbacks = {ModelCheckpoint(directory.file("run"), {.every_epochs = 0, .every_steps = every}),
                       stop_at(stop)};
      program.fit(all);
      const std::int64_t last = stop == 0 ? 18 : stop;
      CHECK(program.trainer.steps() == last);
      FitProgram other;
      all = other.options(3);
      std::int64_t begun = -1;
      const auto look = std::make_shared<TestCallback>();
      look->train_begin = [&](FitRun& run) { begun = run.step(); };
      all.callbacks = {look};
      all.resume = directory.file("run");
      const History history = other.fit(all);
      CHECK(begun == last);
      CHECK(history.stopped == (stop == 0 ? "" : "enough"));
      CHECK(other.trainer.steps() == last);
    }
  }
}

TEST_CASE("fit: files of saves are complete on_train_end, and one that is saved there is written too") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(1);
  bool is_there = false;
  const auto watch = std::make_shared<TestCallback>();
  watch->last_step = [&](FitRun& run) { run.save(directory.file("last")); };
  watch->train_end = [&](FitRun& run) {
    is_there = std::filesystem::exists(directory.file("last")) && !run.saving();
    for (const Parameter& one : program.net.parameters()) one.value.detach().fill(0);
    run.save(directory.file("end"));
  };
  all.callbacks = {watch};
  program.fit(all);
  CHECK(is_there);
  CHECK(saved_in(directory.file("end")).state[0] == std::vector<float>(6 * 16, 0.F));
  CHECK(saved_in(directory.file("last")).state[0] != std::vector<float>(6 * 16, 0.F));
}
