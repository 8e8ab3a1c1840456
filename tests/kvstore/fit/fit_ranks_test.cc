// fit() of several ranks: losses that are not finite, resumes, and what cannot be resumed.
#include <cmath>
#include <files.h>
#include <filesystem>
#include <functional>
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

// What a fit() of two ranks gives that resumes at a path of its own on each rank, after a training of one epoch.
struct Resumed {
  std::vector<std::string> errors;
  std::vector<FitResult> results{2};
  std::vector<bool> are_restored = std::vector<bool>(2);
};

Resumed resume_on_two_ranks(const std::vector<std::string>& paths,
                            const std::function<void(FitOptions&, std::size_t rank)>& change = {}) {
  Resumed resumed;
  std::vector<char> are_restored(2);
  resumed.errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
    FitProgram program({.params = {{"lr", 0.1}, {"momentum", 0.9}}, .store = std::move(store)});
    FitOptions all = program.options(1);
    program.fit(all);
    const FitResult before = program.result({});
    all = program.options(3);
    all.resume = paths[rank];
    if (change) change(all, rank);
    try {
      resumed.results[rank] = program.result(program.fit(all));
    } catch (...) {
      are_restored[rank] = program.result({}) == before;
      // Whoever has been put back can train: no rank waits for another one.
      program.fit(program.options(1));
      throw;
    }
  });
  for (std::size_t rank = 0; rank < 2; ++rank) resumed.are_restored[rank] = are_restored[rank] != 0;
  return resumed;
}

// Trains two ranks, which save every three steps.
std::vector<FitResult> trained_on_two_ranks(const std::string& pattern) {
  std::vector<FitResult> results(2);
  const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
    FitProgram program({.params = {{"lr", 0.1}, {"momentum", 0.9}}, .store = std::move(store)});
    FitOptions all = program.options(3);
    all.callbacks = {std::make_shared<ModelCheckpoint>(
        pattern, ModelCheckpointOptions{.every_epochs = 0, .every_steps = 3})};
    results[rank] = program.result(program.fit(all));
  });
  CHECK(errors == kNone);
  return results;
}

}  // namespace

TEST_CASE("fit: a loss that is not finite on one rank ends both before the same batch, and both can go on") {
  TemporaryDirectory directory;
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const std::size_t bad : {std::size_t{0}, std::size_t{1}}) {
      for (const bool is_busy : {false, true}) {
        CAPTURE(bad);
        CAPTURE(is_busy);
        std::vector<std::vector<std::vector<float>>> before(2), after(2), later(2);
        std::vector<std::string> messages(2);
        const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
          Generator initial(1);
          Sequential net{BatchNorm(3), Dense(3, 1, {}, initial)};
          Trainer trainer(net.parameters(), {.params = {{"lr", 0.1}}, .store = std::move(store)});
          const NDArray x = Generator(2 + rank).normal({64, 3}), good = x.copy();
          if (rank == bad) x.slice(0, {20, 21}).fill(std::nan(""));
          ArrayBatches batches({x, ones({64, 1})}, {.batch = 8});
          const auto watch = std::make_shared<TestCallback>();
          watch->batch_begin = [&](FitRun& run) {
            if (run.batch() == 2) before[rank] = arrays_of(net.state());
          };
          watch->batch_end = [&](FitRun& run) {  // on one rank alone
            if (is_busy && rank == 0) run.later({"batch_loss", "loss"}, [](const FitValues&) {});
          };
          FitOptions all;
          all.loss = "mse_loss";
          all.verbose = false;
          all.capture = capture;
          all.callbacks = {watch};
          if (is_busy)
            all.callbacks.push_back(std::make_shared<ModelCheckpoint>(
                directory.file("nan"), ModelCheckpointOptions{.every_steps = 1}));
          messages[rank] = message_of([&] { fit(net, trainer, batches, all); });
          after[rank] = arrays_of(net.state());
          ArrayBatches others({good, ones({64, 1})}, {.batch = 8});
          all.callbacks = {};
          fit(net, trainer, others, all);
          later[rank] = arrays_of(net.parameters());
        });
        CHECK(errors == kNone);
        CAPTURE(messages[bad]);
        CAPTURE(messages[1 - bad]);
        const std::string name = std::to_string(bad);
        CHECK(contains(messages[bad],
                       "epoch 0, batch 2: the loss is nan on rank " + name + ": array 0 of the batch"));
        CHECK(contains(messages[1 - bad], "epoch 0, batch 2: the loss of rank " + name + " is not finite"));
        for (std::size_t rank = 0; rank < 2; ++rank) {
          REQUIRE(before[rank].size() == 6);
          CHECK(contains(messages[rank], "The parameters are those before this batch"));
          CHECK(after[rank] == before[rank]);
        }
        CHECK(after[0] != after[1]);  // each rank has its own statistics
        CHECK(later[0] == later[1]);
        for (const std::vector<float>& array : later[0])
          for (const float value : array) CHECK(std::isfinite(value));
      }
    }
  }
}

TEST_CASE("Trainer: a state that one rank refuses is set on none") {
  std::vector<char> are_unchanged(2);
  const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
    FitProgram program({.params = {{"lr", 0.1}, {"momentum", 0.9}}, .store = std::move(store)});
    program.fit(program.options(1));
    const FitResult before = program.result({});
    std::map<std::string, NDArray> state = program.trainer.state();
    if (rank == 1) state.erase("steps");
    CHECK(contains(message_of<InvalidArgument>([&] { program.trainer.set_state(state); }),
                   rank == 1 ? "'steps' is missing" : "rank 1 refused it: Trainer::set_state"));
    are_unchanged[rank] = program.result({}) == before;
    program.fit(program.options(1));
  });
  CHECK(errors == kNone);
  CHECK(are_unchanged == std::vector<char>(2, 1));
}

TEST_CASE("fit: ranks resume at the newest checkpoint that all of them have") {
  TemporaryDirectory one, other;
  const std::vector<FitResult> wanted = trained_on_two_ranks(one.file("run-{step}.heddle"));
  for (const char* number : {"12", "15", "18"})
    REQUIRE(std::filesystem::remove(one.file("run-" + std::string(number) + ".heddle")));
  std::filesystem::copy(one.path, other.path, std::filesystem::copy_options::recursive);
  REQUIRE(std::filesystem::remove(other.file("run-9.heddle")));
  REQUIRE(std::filesystem::remove(one.file("run-6.heddle")));
  write_file(other.file("run-12x.heddle"), "another file");
  std::vector<std::int64_t> begins(2);
  const auto begin_of = [&](FitOptions& all, std::size_t rank) {
    const auto watch = std::make_shared<TestCallback>();
    watch->train_begin = [&begins, rank](FitRun& run) { begins[rank] = run.step(); };
    all.callbacks = {watch};
  };
  for (const bool swapped : {false, true}) {
    std::vector<std::string> paths{one.file("run-{step}.heddle"), other.file("run-{step}.heddle")};
    if (swapped) std::swap(paths[0], paths[1]);
    const Resumed resumed = resume_on_two_ranks(paths, begin_of);
    CHECK(resumed.errors == kNone);
    CHECK(begins == std::vector<std::int64_t>{3, 3});
    CHECK(resumed.results == wanted);
  }
  // Nothing at all is a beginning, and nothing that both have is an error.
  TemporaryDirectory empty;
  CHECK(resume_on_two_ranks({empty.file("{step}"), empty.file("{step}")}).errors == kNone);
  const Resumed apart = resume_on_two_ranks({one.file("run-{step}.heddle"), empty.file("run-{step}.heddle")});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(contains(apart.errors[rank], "is on some ranks alone"));
    CHECK(apart.are_restored[rank]);
  }
}

TEST_CASE("fit: if one rank cannot resume none does, and all are put back") {
  TemporaryDirectory one, other;
  trained_on_two_ranks(one.file("{step}"));
  std::filesystem::copy(one.path, other.path, std::filesystem::copy_options::recursive);
  const auto refused = [&](const std::vector<std::string>& paths,
                           const std::function<void(FitOptions&, std::size_t)>& change = {}) {
    const Resumed resumed = resume_on_two_ranks(paths, change);
    CAPTURE(resumed.errors[0]);
    CAPTURE(resumed.errors[1]);
    CHECK(resumed.are_restored[0]);
    CHECK(resumed.are_restored[1]);
    return resumed.errors;
  };
  // Another step, within the same epoch: 6 steps are an epoch.
  auto errors = refused({one.file("3"), other.file("6")});
  for (const std::string& error : errors) CHECK(contains(error, "differs"));
  std::filesystem::remove(other.file("3"));
  errors = refused({one.file("3"), other.file("3")});
  CHECK(contains(errors[0], "rank 1 refused it"));
  CHECK(contains(errors[1], other.file("3")));
  std::string bytes = read_file(one.file("3"));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_file(other.file("3"), bytes);
  errors = refused({one.file("3"), other.file("3")});
  CHECK(contains(errors[0], "rank 1 refused it"));
  CHECK(contains(errors[1], "the file is damaged"));
  // What only the trainer looks at; without compression no word of residuals.
  for (const std::string part : {"trainer.", "trainer.steps", "trainer.state.3.bias."}) {
    CAPTURE(part);
    Safetensors content = load_safetensors(one.file("3"));
    std::erase_if(content.arrays, [&](const auto& entry) { return entry.first.starts_with(part); });
    std::filesystem::remove(other.file("3"));
    save_safetensors(other.file("3"), content);
    errors = refused({one.file("3"), other.file("3")});
    CHECK(contains(errors[0], "rank 1 refused it"));
    CHECK_FALSE(contains(errors[0], "esiduals begin"));
    CHECK(contains(errors[1], "does not fit: Trainer::set_state"));
  }
  // What only fit() looks at.
  Generator noise(1);
  errors = refused({one.file("3"), one.file("3")}, [&](FitOptions& all, std::size_t rank) {
    if (rank == 1) all.generators = {{"noise", &noise}};
  });
  CHECK(contains(errors[0], "rank 1 refused it: fit: checkpoint"));
  CHECK(contains(errors[1], "has no generator 'noise'"));
}

TEST_CASE("evaluate: what one rank refuses, or all ranks would compute differently, is an error of all") {
  const auto ranks = Communicator::create_local(2);
  struct Case {
    std::function<void(FitData& data, EvaluateOptions& all)> change;  // on rank 1
    std::string own, other;
  };
  const std::string refused = "evaluate: rank 1 refused it: ";
  const std::vector<Case> cases{
      {[](FitData& data, EvaluateOptions&) {
         data.arrays[0] = zeros({20, 5});
       },
       "", refused},
      {[](FitData& data, EvaluateOptions&) { data.arrays.clear(); },
       "evaluate: there are no data; want arrays, or a Batches", refused},
      {[](FitData&, EvaluateOptions& all) { all.loss = "no_loss"; }, "evaluate: there is no loss 'no_loss'",
       refused},
      {[](FitData&, EvaluateOptions& all) { all.metrics = {"f1"}; },
       "evaluate: the ranks' losses and metrics differs", "evaluate: the ranks' losses and metrics differs"},
      {[](FitData& data, EvaluateOptions&) { data.arrays[1].fill(9); }, "label 9", "label 9"}};
  std::vector<std::vector<std::string>> messages(2);
  std::vector<FitValues> values(2);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      Generator initial(1);
      Sequential net{Dense(4, 2, {}, initial)};
      const auto evaluated = [&](const auto& change) {
        FitData data{Generator(2).normal({20, 4}), zeros({20}, DType::i64)};
        EvaluateOptions all{.loss = "cross_entropy", .metrics = {"accuracy"}, .batch = 4, .ranks = ranks[at]};
        if (rank == 1) change(data, all);
        return evaluate(net, data, all);
      };
      for (const Case& one : cases) messages[at].push_back(message_of([&] { evaluated(one.change); }));
      values[at] = evaluated([](FitData&, EvaluateOptions&) {});  // goes on
    });
  for (std::thread& one : threads) one.join();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CAPTURE(messages[0][i]);
    CAPTURE(messages[1][i]);
    CHECK(contains(messages[0][i], cases[i].other));
    CHECK(contains(messages[1][i], cases[i].own));
    CHECK(messages[1][i] != "no error");
  }
  CHECK(values[0] == values[1]);
}
