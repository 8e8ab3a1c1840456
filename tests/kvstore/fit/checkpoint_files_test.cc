// Files of checkpoints: which ones a ModelCheckpoint removes, and what happens to all ranks if one cannot write.
#include <algorithm>
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

using Names = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Names names_in(const std::string& folder) {
  Names names;
  for (const auto& one : std::filesystem::directory_iterator(folder))
    names.push_back(one.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

History fit_with(const AnyCallback& callback, std::int64_t epochs, const std::string& resume = "") {
  FitProgram program;
  FitOptions all = program.options(epochs);
  all.callbacks = {callback};
  all.resume = resume;
  return program.fit(all);
}

std::shared_ptr<ModelCheckpoint> keeping(const std::string& path, std::int64_t keep) {
  return std::make_shared<ModelCheckpoint>(path, ModelCheckpointOptions{.keep = keep});
}

// Calls body(rank, program) on a thread for each of two ranks, and trains afterwards, which needs both of them. Returns what
// the bodies have thrown.
Names errors_of_two_ranks(const std::function<void(std::size_t, FitProgram&)>& body,
                          const KVStoreOptions& options = {}) {
  const auto ranks = Communicator::create_local(2);
  Names errors(2), later(2);
  const auto run = [&](std::size_t rank) {
    later[rank] = message_of([&] {
      FitProgram program(
          {.params = {{"lr", 0.1}}, .store = KVStore::create("allreduce", ranks[rank], options)});
      errors[rank] = message_of([&] { body(rank, program); });
      program.fit(program.options(1));
    });
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(later == Names(2, "no error"));
  return errors;
}

}  // namespace

TEST_CASE("ModelCheckpoint: a run that goes on elsewhere removes no files where it came from") {
  TemporaryDirectory from, to;
  fit_with(keeping(from.file("ck-{epoch}"), 3), 4);
  CHECK(names_in(from.path) == Names{"ck-2", "ck-3", "ck-4"});
  fit_with(keeping(to.file("ck-{epoch}"), 2), 7, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"ck-2", "ck-3", "ck-4"});
  CHECK(names_in(to.path) == Names{"ck-6", "ck-7"});
  // Another name in the same folder, and the same one.
  fit_with(keeping(from.file("b-{epoch}"), 1), 6, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"b-6", "ck-2", "ck-3", "ck-4"});
  fit_with(keeping(from.file("./ck-{epoch}"), 2), 5, from.file("ck-4"));
  CHECK(names_in(from.path) == Names{"b-6", "ck-4", "ck-5"});
}

TEST_CASE(
    "ModelCheckpoint: nothing is removed but checkpoints of fit, and not the one that it goes on from") {
  TemporaryDirectory directory;
  fit_with(keeping(directory.file("{epoch}.run"), 1), 2);
  std::filesystem::rename(directory.file("2.run"), directory.file("1000.run"));
  write_file(directory.file("2024.run"), "text");
  std::filesystem::create_directory(directory.file("77.run"));
  const FitProgram other;
  save_checkpoint(directory.file("99.run"), {.parameters = other.net.state()});
  fit_with(keeping(directory.file("{epoch}.run"), 1), 4, directory.file("1000.run"));
  CHECK(names_in(directory.path) == Names{"1000.run", "2024.run", "4.run", "77.run", "99.run"});
}

TEST_CASE("ModelCheckpoint: each rank removes its residuals beside a checkpoint that is removed") {
  for (const bool are_apart : {false, true}) {
    TemporaryDirectory folders[2];
    const auto folder = [&](std::size_t rank) { return folders[are_apart ? rank : 0].path.string(); };
    const auto train = [&](std::int64_t epochs, const std::string& resume) {
      const Names errors = errors_of_two_ranks(
          [&](std::size_t rank, FitProgram& program) {
            FitOptions all = program.options(epochs);
            all.callbacks = {std::make_shared<ModelCheckpoint>(
                folder(rank) + "/{step}",
                ModelCheckpointOptions{.every_epochs = 0, .every_steps = 2, .keep = 2})};
            if (!resume.empty()) all.resume = folder(rank) + resume;
            program.fit(all);
          },
          {.compression = "2bit"});
      CHECK(errors == Names(2, "no error"));
    };
    const auto check = [&](const Names& kept) {
      Names own[2];
      for (const std::string& name : kept) {
        own[0].push_back(name);
        for (const std::size_t rank : {0, 1})
          own[are_apart ? rank : 0].push_back(name + ".residuals-" + name + "-" + std::to_string(rank) +
                                              "-of-2");
      }
      for (const std::size_t rank : {0, 1}) {
        std::sort(own[rank].begin(), own[rank].end());
        CHECK(names_in(folders[rank].path) == own[rank]);
      }
    };
    train(2, "");
    check({"10", "12"});
    // A run that is resumed at step 10 finds the file of step 12, which the run that was killed has left, and replaces it.
    if (are_apart) std::filesystem::copy(folders[0].file("10"), folders[1].file("10"));
    train(2, "/10");
    if (are_apart) std::filesystem::remove(folders[1].file("10"));
    check({"10", "12"});
  }
}

TEST_CASE("fit: what rank 0 cannot write ends the training on all ranks, which can go on") {
  TemporaryDirectory directory;
  const std::string none = directory.file("none/x"), gone = directory.file("gone");
  const auto errors_with = [&](const std::function<void(FitOptions&)>& change) {
    return errors_of_two_ranks([&](std::size_t, FitProgram& program) {
      FitOptions all = program.options(3);
      change(all);
      program.fit(all);
    });
  };
  const std::vector<std::function<void(FitOptions&)>> changes{
      [&](FitOptions& all) { all.save_on_interrupt = none; },
      [&](FitOptions& all) { all.callbacks = {ModelCheckpoint(none)}; },
      [&](FitOptions& all) { all.callbacks = {CsvLogger(none)}; },
      [&](FitOptions& all) { all.callbacks = {TensorBoard("/dev/null/x")}; },
  };
  for (const auto& change : changes) {
    const Names errors = errors_with(change);
    CAPTURE(errors[0]);
    CAPTURE(errors[1]);
    CHECK_FALSE(contains(errors[0], "rank 0 refused it"));
    CHECK(errors[0] != "no error");
    CHECK(contains(errors[1], "rank 0 refused it: "));
  }
  // The folder is lost while the training goes on.
  for (const std::int64_t keep : {0, 1}) {
    for (const bool by_steps : {false, true}) {
      CAPTURE(keep);
      CAPTURE(by_steps);
      std::filesystem::create_directory(gone);
      const Names errors = errors_of_two_ranks([&](std::size_t rank, FitProgram& program) {
        const auto loses = std::make_shared<TestCallback>();
        loses->batch_begin = [&, rank](FitRun& run) {
          if (rank == 0 && run.step() == 7) std::filesystem::remove_all(gone);
        };
        FitOptions all = program.options(3);
        all.callbacks = {loses, std::make_shared<ModelCheckpoint>(
                                    gone + "/{step}", ModelCheckpointOptions{.every_epochs = by_steps ? 0 : 1,
                                                                             .every_steps = by_steps ? 2 : 0,
                                                                             .keep = keep})};
        program.fit(all);
      });
      CAPTURE(errors[0]);
      CAPTURE(errors[1]);
      CHECK(contains(errors[0], "CheckpointWriter::save: file '" + gone));
      CHECK(contains(errors[1], "rank 0 refused it: "));
    }
  }
}

TEST_CASE("fit: paths to resume at that cannot be, and long ones") {
  FitProgram program;
  FitOptions all = program.options(1);
  const auto refused = [&](const std::string& path) {
    all.resume = path;
    return message_of([&] { program.fit(all); });
  };
  TemporaryDirectory directory;
  CHECK(contains(refused(directory.file("run-{epoch}/ck")), "in the file's name, not in its folder's"));
  for (const char* const part : {"a", "{epoch}", "{x}", "{", "\\", "("})
    for (const char* const end : {"", "{epoch}"}) {
      std::string path = "/";
      for (int i = 0; i < 30'000; ++i) path += part;
      CHECK(contains(refused(path + end), "cannot be read"));
    }
  CHECK(program.trainer.steps() == 0);
  write_file(directory.file("(1)+[2].run"), "no checkpoint");
  CHECK(contains(refused(directory.file("({epoch})+[{step}].run")), "(1)+[2].run"));
  std::filesystem::create_directory(directory.file("9.folder"));
  CHECK(refused(directory.file("{epoch}.folder")) == "no error");  // there is no file: it begins
}

TEST_CASE("EarlyStopping: a run that it has ended, and that is told to go on, waits anew") {
  TemporaryDirectory directory;
  const auto train = [&](bool goes_on) {
    FitProgram program;
    FitOptions all = program.options(12);
    all.callbacks = {EarlyStopping({.monitor = "loss", .min_delta = 100, .patience = 1}),
                     std::make_shared<ModelCheckpoint>(directory.file("run"))};
    all.resume = directory.file("run");
    all.resume_stopped = goes_on;
    return program.fit(all)["loss"].size();
  };
  CHECK(train(false) == 3);
  CHECK(train(false) == 3);
  CHECK(train(true) == 5);
  CHECK(train(true) == 7);
}

TEST_CASE("fit: after a batch that cannot be trained the network and its statistics are those before it") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const int size : {1, 2}) {
      CAPTURE(size);
      const auto ranks = Communicator::create_local(size);
      std::vector<std::vector<std::vector<float>>> before(ranks.size()), after(ranks.size());
      Names errors(ranks.size()), later(ranks.size());
      const auto state_of = [](const Sequential& net) {
        std::vector<std::vector<float>> values;
        for (const Parameter& one : net.state())
          values.push_back(one.value.astype(DType::f32).to_vector<float>());
        return values;
      };
      const auto run = [&](std::size_t rank) {
        later[rank] = message_of([&] {
          Generator initial(1);
          Sequential net{BatchNorm(3), Dense(3, 2, {}, initial)};
          Trainer trainer(net.parameters(),
                          {.params = {{"lr", 0.1}}, .store = KVStore::create("allreduce", ranks[rank])});
          const NDArray x = Generator(2 + rank).normal({64, 3}), good = zeros({64}, DType::i64),
                        bad = good.copy();
          if (rank + 1 == ranks.size()) bad.slice(0, {20, 21}).fill(7);
          const auto watch = std::make_shared<TestCallback>();
          watch->batch_begin = [&](FitRun& at) {
            if (at.batch() == 2) before[rank] = state_of(net);
          };
          FitOptions all;
          all.loss = "cross_entropy";
          all.verbose = false;
          all.capture = capture;
          all.callbacks = {watch};
          ArrayBatches batches({x, bad}, {.batch = 8}), others({x, good}, {.batch = 8});
          errors[rank] = message_of([&] { fit(net, trainer, batches, all); });
          after[rank] = state_of(net);
          trainer.clear_errors();
          all.callbacks = {};
          fit(net, trainer, others, all);
          state_of(net);
        });
      };
      std::vector<std::thread> threads;
      for (std::size_t rank = 1; rank < ranks.size(); ++rank) threads.emplace_back(run, rank);
      run(0);
      for (std::thread& one : threads) one.join();
      CHECK(later == Names(ranks.size(), "no error"));
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        CAPTURE(errors[rank]);
        CHECK(contains(errors[rank], "label"));
        CHECK(after[rank] == before[rank]);
      }
    }
  }
}
