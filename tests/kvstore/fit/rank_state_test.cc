// What each rank of a fit() has of its own: statistics in checkpoints, callbacks that fail on one rank, files in folders apart.
#include <algorithm>
#include <csignal>
#include <files.h>
#include <filesystem>
#include <functional>
#include <memory>
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

using State = std::vector<std::vector<float>>;

// A training of a rank on data of its own, after which the statistics of the ranks differ.
struct OwnData {
  Generator initial{1};
  BatchNorm norm{4};
  Sequential net{Dense(3, 4, {}, initial), norm, Dense(4, 2, {}, initial)};
  Trainer trainer;
  ArrayBatches batches;

  OwnData(std::size_t rank, std::shared_ptr<KVStore> store)
      : trainer(net.parameters(), {.params = {{"lr", 0.1}}, .store = std::move(store)}),
        batches(
            {Generator(2 + rank).normal({32, 3}) * static_cast<double>(rank + 1), zeros({32}, DType::i64)},
            {.batch = 8}) {}
  FitOptions options(std::int64_t epochs = 1) const {
    FitOptions all;
    all.loss = "cross_entropy";
    all.epochs = epochs;
    all.verbose = false;
    return all;
  }
  void fit(FitOptions all) { heddle::fit(net, trainer, batches, std::move(all)); }
  State state() const { return arrays_of(net.state()); }
};

// What train(program) leaves on each of two ranks.
std::vector<State> trained(const std::function<void(OwnData&)>& train) {
  std::vector<State> states(2);
  const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
    OwnData program(rank, std::move(store));
    train(program);
    states[rank] = program.state();
  });
  CHECK(errors == kNone);
  return states;
}

AnyCallback saving(const std::string& path) { return std::make_shared<ModelCheckpoint>(path); }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& one : std::filesystem::directory_iterator(folder))
    names.push_back(one.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Arrays of which each rank has its own, and of which all have the same.
struct OwnArrays : Callback {
  NDArray own{}, common{};
  std::string name() const override { return "OwnArrays"; }
  CallbackState state() const override {
    return {.numbers = {}, .texts = {}, .arrays = {{"common", common}}, .of_rank = {{"own", own}}};
  }
  void set_state(const CallbackState& state) override {
    common = state.arrays.at("common");
    own = state.of_rank.at("own");
  }
};

}  // namespace

TEST_CASE("EarlyStopping: each rank gets its own statistics of the best epoch, also in a resumed run") {
  TemporaryDirectory directory;
  const auto train = [&](std::int64_t epochs, const std::string& save, const std::string& resume) {
    return trained([&](OwnData& program) {
      FitOptions all = program.options(epochs);
      all.resume = resume;
      all.callbacks = {EarlyStopping(  // the best epoch is the first one
          {.monitor = "lr", .mode = MonitorMode::min, .patience = 50, .restore_best = true})};
      if (!save.empty()) all.callbacks.push_back(saving(save));
      program.fit(all);
    });
  };
  const std::vector<State> wanted = train(3, "", "");
  train(2, directory.file("run"), "");
  CHECK(train(3, "", directory.file("run")) == wanted);
  CHECK(wanted[0] != wanted[1]);
}

TEST_CASE("fit: a callback's arrays of each rank are saved, and a rank more gets those of rank 0") {
  TemporaryDirectory directory;
  const auto run = [&](int size, const std::string& save, const std::string& resume) {
    const auto ranks = Communicator::create_local(size);
    std::vector<std::vector<float>> own(ranks.size());
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        errors[rank] = message_of([&] {
          OwnData program(rank, KVStore::create("allreduce", ranks[rank]));
          FitOptions all = program.options(save.empty() ? 1 : 0);
          const auto arrays = std::make_shared<OwnArrays>();
          arrays->common = full({2, 0}, 1);
          arrays->own = full({3}, static_cast<double>(rank + (save.empty() ? 10 : 1)), DType::f64);
          const auto saves = std::make_shared<TestCallback>();
          saves->train_begin = [&](FitRun& at) {
            if (!save.empty()) at.save(save);
          };
          all.callbacks = {arrays, saves};
          all.resume = resume;
          program.fit(all);
          own[rank] = arrays->own.astype(DType::f32).to_vector<float>();
          CHECK(arrays->common.shape() == Shape{2, 0});
        });
      });
    for (std::thread& one : threads) one.join();
    CHECK(errors == std::vector<std::string>(ranks.size(), "no error"));
    return own;
  };
  run(2, directory.file("two"), "");
  run(1, directory.file("one"), "");
  const std::vector<float> one(3, 1), two(3, 2);
  CHECK(run(2, "", directory.file("two")) == State{one, two});
  CHECK(run(3, "", directory.file("two")) == State{one, two, one});
  CHECK(run(1, "", directory.file("two")) == State{one});
  CHECK(run(2, "", directory.file("one")) == State{one, one});
}

TEST_CASE("fit: callbacks whose arrays differ in shape between ranks are refused on all") {
  TemporaryDirectory directory;
  const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
    OwnData program(rank, std::move(store));
    FitOptions all = program.options();
    const auto arrays = std::make_shared<OwnArrays>();
    arrays->common = zeros({1});
    arrays->own = zeros({static_cast<std::int64_t>(rank + 1)});
    all.callbacks = {arrays, saving(directory.file("run"))};
    const std::string message = message_of([&] { program.fit(all); });
    CHECK(contains(message, "the ranks' arrays for a checkpoint differs"));
    program.fit(program.options());
  });
  CHECK(errors == kNone);
}

TEST_CASE("fit: checkpoints have the statistics of all ranks, also where a run has not changed them") {
  TemporaryDirectory directory;
  const auto run = [&](const std::string& resume, const AnyCallback& callback) {
    return trained([&](OwnData& program) {
      FitOptions all = program.options();
      all.resume = resume;
      all.callbacks = {callback};
      program.fit(all);
    });
  };
  struct SaveAtOnce : Callback {
    std::string path;
    explicit SaveAtOnce(std::string to) : path(std::move(to)) {}
    void on_train_begin(FitRun& at) override { at.save(path); }
  };
  const std::vector<State> first = run("", saving(directory.file("a")));
  CHECK(first[0] != first[1]);
  CHECK(run(directory.file("a"), std::make_shared<SaveAtOnce>(directory.file("b"))) == first);
  CHECK(run(directory.file("b"), std::make_shared<TestCallback>()) == first);

  // Statistics that were trained before, and are in inference now.
  const std::vector<State> before = trained([&](OwnData& program) {
    program.fit(program.options());
    program.norm.train(false);
    FitOptions all = program.options();
    all.callbacks = {saving(directory.file("c"))};
    program.fit(all);
  });
  const std::vector<State> after = trained([&](OwnData& program) {
    program.norm.train(false);
    FitOptions all = program.options();
    all.resume = directory.file("c");
    program.fit(all);
  });
  CHECK(after == before);
}

TEST_CASE("fit: an exception on one rank in a callback or in data ends all, which can go on") {
  struct NoStart : ArrayBatches {
    using ArrayBatches::ArrayBatches;
    bool fails = false;
    void start(std::int64_t epoch, std::int64_t first) override {
      if (fails) throw InvalidArgument("no data");
      ArrayBatches::start(epoch, first);
    }
  };
  std::signal(SIGINT, SIG_DFL);
  const std::vector<std::string> events{"train_begin", "epoch_begin",    "validation_begin",
                                        "validation",  "validation_end", "epoch_end",
                                        "interrupt",   "train_end",      "start"};
  for (const std::string& event : events) {
    for (const std::size_t bad : {std::size_t{0}, std::size_t{1}}) {
      CAPTURE(event);
      CAPTURE(bad);
      std::vector<std::string> messages(2);
      const auto errors = on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
        OwnData program(rank, std::move(store));
        NoStart data({zeros({16, 3}), zeros({16}, DType::i64)}, {.batch = 8});
        NoStart tests({zeros({16, 3}), zeros({16}, DType::i64)}, {.batch = 8});
        const bool is_bad = rank == bad;
        data.fails = is_bad && event == "start";
        tests.fails = is_bad && event == "validation";
        const auto watch = std::make_shared<TestCallback>();
        const auto fails = [&](const std::string& now) {
          return [&, now](FitRun&) {
            if (is_bad && event == now) throw InvalidArgument("of this rank");
          };
        };
        watch->train_begin = fails("train_begin");
        watch->epoch_begin = fails("epoch_begin");
        watch->validation_begin = fails("validation_begin");
        watch->validation_end = fails("validation_end");
        watch->interrupt = fails("interrupt");
        watch->train_end = fails("train_end");
        watch->epoch_end = [&](FitRun& at, const FitValues&) { fails("epoch_end")(at); };
        watch->batch_end = [&](FitRun& at) {  // a second signal would kill
          if (event == "interrupt" && rank == 0 && at.batch() == 1) std::raise(SIGINT);
        };
        FitOptions all = program.options();
        all.callbacks = {watch};
        all.validation = FitData(tests);
        messages[rank] = message_of([&] { fit(program.net, program.trainer, data, all); });
        program.fit(program.options());
      });
      CHECK(errors == kNone);
      CAPTURE(messages[0]);
      CAPTURE(messages[1]);
      CHECK(contains(messages[bad], event == "start" || event == "validation" ? "no data" : "of this rank"));
      CHECK(contains(messages[1 - bad], "fit: rank " + std::to_string(bad) + " refused it: "));
    }
  }
}

TEST_CASE("ModelCheckpoint: ranks that save in folders apart remove residuals of a run that was resumed") {
  TemporaryDirectory folders[2];
  const auto train = [&](std::int64_t epochs, bool resumes) {
    const auto errors = on_two_ranks(
        [&](std::size_t rank, std::shared_ptr<KVStore> store) {
          FitProgram program({.params = {{"lr", 0.1}}, .store = std::move(store)});
          FitOptions all = program.options(epochs);
          all.callbacks = {std::make_shared<ModelCheckpoint>(folders[rank].file("c-{epoch}"),
                                                             ModelCheckpointOptions{.keep = 2})};
          if (resumes) all.resume = folders[rank].file("c-{epoch}");
          program.fit(all);
        },
        {.compression = "2bit"});
    CHECK(errors == kNone);
  };
  train(3, false);
  write_file(folders[1].file("c-0.residuals-6-1-of-2"), "of another run");
  for (const std::string name : {"c-2", "c-3"})
    std::filesystem::copy(folders[0].file(name), folders[1].file(name));
  train(6, true);
  for (const std::string name : {"c-2", "c-3"}) std::filesystem::remove(folders[1].file(name));
  CHECK(names_in(folders[0].path) ==
        std::vector<std::string>{"c-5", "c-5.residuals-30-0-of-2", "c-6", "c-6.residuals-36-0-of-2"});
  CHECK(names_in(folders[1].path) == std::vector<std::string>{"c-0.residuals-6-1-of-2",
                                                              "c-5.residuals-30-1-of-2",
                                                              "c-6.residuals-36-1-of-2"});
}

TEST_CASE("fit: of a checkpoint that another rank cannot read nothing is said of residuals") {
  TemporaryDirectory directory;
  const std::string good = directory.file("run"), bad = directory.file("bad");
  const auto train = [&](const std::function<void(FitOptions&, std::size_t)>& change) {
    std::vector<State> states(2);
    const auto errors = on_two_ranks(
        [&](std::size_t rank, std::shared_ptr<KVStore> store) {
          OwnData program(rank, std::move(store));
          program.fit(program.options());
          FitOptions all = program.options(2);
          change(all, rank);
          const std::string error = message_of([&] { program.fit(all); });
          program.fit(program.options());  // as if nothing had been tried
          states[rank] = program.state();
          if (error != "no error") throw Error(error);
        },
        {.compression = "2bit"});
    return std::pair(errors, states);
  };
  const std::vector<State> wanted = train([&](FitOptions& all, std::size_t) { all.epochs = 0; }).second;
  CHECK(train([&](FitOptions& all, std::size_t) { all.callbacks = {saving(good)}; }).first == kNone);
  std::string bytes = read_file(good);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  write_file(bad, bytes);
  Generator noise(1);
  for (const bool is_damaged : {true, false}) {
    const auto [errors, states] = train([&](FitOptions& all, std::size_t rank) {
      all.resume = rank == 1 && is_damaged ? bad : good;
      if (rank == 1 && !is_damaged) all.generators = {{"noise", &noise}};
    });
    CAPTURE(errors[0]);
    CAPTURE(errors[1]);
    CHECK(contains(errors[0], "rank 1 refused it: "));
    CHECK(contains(errors[1], is_damaged ? "the file is damaged" : "has no generator 'noise'"));
    for (const std::string& error : errors) CHECK_FALSE(contains(error, "esiduals"));
    CHECK(states == wanted);
  }
  // Residuals of one rank are damaged.
  const std::string residuals = good + ".residuals-12-1-of-2";
  Safetensors content = load_safetensors(residuals);
  content.metadata["parameters"] = "others";
  save_safetensors(residuals, content);
  const auto [errors, states] = train([&](FitOptions& all, std::size_t) { all.resume = good; });
  for (const std::string& error : errors)
    CHECK(contains(error, "Without these files of all workers residuals begin at 0"));
  CHECK(states == wanted);
}
