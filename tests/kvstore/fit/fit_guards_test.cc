// fit(): what a step, a validation or an epoch must not leave behind, and what would train something else than what was meant.
#include <cmath>
#include <csignal>
#include <files.h>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <message_of.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using State = std::vector<std::vector<float>>;

struct TwoLayers {
  Generator initial{1};
  Dense first{4, 8, {.relu = true}, initial}, second{8, 2, {}, initial};
  Sequential net{first, second};
  NDArray x = Generator(2).normal({80, 4});
  NDArray labels = cast(sum(x, {1}) > 0, DType::i64);
  FitOptions options() const {
    FitOptions all;
    all.loss = "cross_entropy";
    all.verbose = all.shuffle = false;
    all.batch = 10;
    return all;
  }
  bool has_gradients() const {
    for (const Parameter& one : net.state())
      if (grad(one.value).defined()) return true;
    return false;
  }
};

std::shared_ptr<TestCallback> at_batch(std::int64_t batch, std::function<void(FitRun&)> use) {
  auto callback = std::make_shared<TestCallback>();
  callback->batch_end = [batch, use = std::move(use)](FitRun& run) {
    if (run.batch() == batch) use(run);
  };
  return callback;
}

// A buffer that forward() replaces.
struct Mean : Module {
  NDArray mean = buffer("mean", zeros({4}));
  NDArray forward(const NDArray& x) override {
    if (training()) mean = set("mean", mean * 0.5 + heddle::mean(x.detach(), {0}));
    return x - mean;
  }
};

// What a batch with a label 7 or with NaN in row 40, the first of batch 4, throws.
const std::string kBadLabel = "cross_entropy: label 7 at row 0 is outside 0 .. 1",
                  kBadInput =
                      "fit: epoch 0, batch 4: the loss is nan: array 0 of the batch has NaN. "
                      "The parameters are those before this batch";

std::string interrupted(const std::function<void()>& fit) {
  std::signal(SIGINT, SIG_DFL);  // a shell that starts the test in the background ignores the signal
  return message_of(fit);
}

std::set<std::string> files_in(const TemporaryDirectory& directory) {
  std::set<std::string> names;
  for (const auto& one : std::filesystem::directory_iterator(directory.path))
    names.insert(one.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE("fit: gradients from elsewhere, and of what the trainer does not train, count in no step") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const int accumulate : {1, 2}) {
      std::vector<State> results;
      for (const bool leaves_gradients : {false, true}) {
        TwoLayers program;
        FitOptions all = program.options();
        all.capture = capture;
        all.accumulate = accumulate;
        Trainer head(program.second.parameters(), {.params = {{"lr", 0.1}}});
        fit(program.net, head, {program.x, program.labels}, all);
        CHECK_FALSE(program.has_gradients());
        const auto probe = [&] { backward(cross_entropy(program.net(program.x), program.labels)); };
        if (leaves_gradients) {
          probe();
          const auto callback = std::make_shared<TestCallback>();
          callback->batch_end = [&](FitRun&) { probe(); };
          all.callbacks = {callback};
        }
        Trainer trainer(program.net.parameters(), {.params = {{"lr", 0.1}}});
        fit(program.net, trainer, {program.x, program.labels}, all);
        results.push_back(arrays_of(program.net.state()));
      }
      CHECK(results[0] == results[1]);
    }
  }
}

TEST_CASE("fit: a batch that is refused leaves no gradient, also not of what the trainer does not train") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const bool is_label : {false, true}) {
      TwoLayers program;
      NDArray bad_x = program.x.copy(), bad_labels = program.labels.copy();
      is_label ? bad_labels.slice(0, {40, 41}).fill(7) : bad_x.slice(0, {40, 41}).fill(std::nan(""));
      FitOptions all = program.options();
      all.capture = capture;
      Trainer head(program.second.parameters(), {.params = {{"lr", 0.1}}});
      CHECK(message_of([&] {
              fit(program.net, head, {bad_x, bad_labels}, all);
            }) == (is_label ? kBadLabel : kBadInput));
      CHECK_FALSE(program.has_gradients());
      Trainer trainer(program.net.parameters(), {.params = {{"lr", 0.1}}});
      fit(program.net, trainer, {program.x, program.labels}, all);
    }
  }
}

TEST_CASE("fit: a buffer that forward() replaces is as before a batch that is refused or skipped") {
  for (const bool scales : {false, true}) {
    Mean mean;
    Sequential net{mean, Dense(4, 2)};
    Trainer trainer(net.parameters(), {.scaler = scales ? std::optional(LossScaler()) : std::nullopt});
    const NDArray x = Generator(2).normal({80, 4});
    x.slice(0, {45, 46}).fill(std::nan(""));
    FitOptions all;
    all.loss = "cross_entropy";
    all.verbose = all.shuffle = false;
    all.batch = 10;
    State before, after;
    const auto watch = std::make_shared<TestCallback>();
    watch->batch_begin = [&](FitRun& run) {
      if (run.batch() == 4) before = arrays_of(net.state());
      if (run.batch() == 5) after = arrays_of(net.state());
    };
    all.callbacks = {watch};
    const NDArray labels = zeros({80}, DType::i64);
    const std::string message = message_of([&] { fit(net, trainer, {x, labels}, all); });
    REQUIRE(before.size() == 3);
    if (scales) {
      CHECK(message == "no error");
      CHECK(after[0] == before[0]);
    } else {
      CHECK(contains(message, "batch 4: the loss is nan"));
      CHECK(arrays_of(net.state()) == before);
    }
    x.fill(1);
    all.callbacks = {};
    fit(net, trainer, {x, labels}, all);
    const State good = arrays_of(net.state());
    for (const float one : good[0]) CHECK(std::isfinite(one));
  }
}

TEST_CASE("fit: a buffer that is replaced in a captured step is an error") {
  Mean mean;
  Sequential net{mean, Dense(4, 2)};
  Trainer trainer(net.parameters());
  FitOptions all;
  all.loss = "cross_entropy";
  all.verbose = false;
  all.batch = 10;
  all.capture = FitCapture::always;
  const NDArray x = Generator(2).normal({80, 4}), labels = zeros({80}, DType::i64);
  CHECK(contains(message_of([&] {
                   fit(net, trainer, {x, labels}, all);
                 }),
                 "buffer 'mean' gets another array in a step that is captured"));
  all.capture = FitCapture::automatic;
  fit(net, trainer, {x, labels}, all);
}

TEST_CASE("fit: losses by name want labels in the shape of outputs") {
  for (const char* loss : {"mse_loss", "l1_loss", "huber_loss", "hinge_loss", "kl_div", "bce_with_logits"}) {
    CAPTURE(loss);
    Sequential net{Dense(4, 1)};
    Trainer trainer(net.parameters());
    const NDArray x = Generator(2).normal({32, 4});
    for (const Shape& shape : {Shape{32}, Shape{32, 1, 1}, Shape{32, 3}}) {
      const std::string text =
          "the output is (32, 1), the label " + shape.to_string() + "; want equal shapes";
      CHECK(contains(message_of<InvalidArgument>([&] {
                       fit(net, trainer, {x, ones(shape)}, {.loss = loss, .verbose = false});
                     }),
                     "fit: " + std::string(loss) + ": " + text));
      CHECK(contains(message_of<InvalidArgument>([&] {
                       evaluate(net, {x, ones(shape)}, {.loss = loss});
                     }),
                     "evaluate: " + std::string(loss) + ": " + text));
    }
    fit(net, trainer, {x, ones({32, 1})}, {.loss = loss, .verbose = false});
  }
}

TEST_CASE("fit: callbacks that would each set the rates are refused") {
  FitProgram program;
  const auto plateau = [] { return ReduceOnPlateau({.monitor = "loss"}); };
  const LearningRateScheduler scheduler([](std::int64_t, double lr) { return lr; });
  FitOptions all = program.options(1);
  all.callbacks = {plateau(), plateau()};
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }), "there are 2 ReduceOnPlateau"));
  all.callbacks = {scheduler, plateau()};
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }),
                 "a ReduceOnPlateau and a LearningRateScheduler"));
  CHECK(program.trainer.steps() == 0);
}

TEST_CASE("fit: late values are handed out before a save, which may keep what comes of them") {
  struct Count : Callback {
    double count = 0;
    void on_batch_end(FitRun& run) override {
      run.later({"batch_loss"}, [this](const FitValues&) { ++count; });
    }
    CallbackState state() const override { return {.numbers = {{"count", count}}}; }
    void set_state(const CallbackState& state) override { count = state.numbers.at("count"); }
  };
  TemporaryDirectory directory;
  for (const std::int64_t step : {1, 5, 9}) {
    const std::string path = directory.file(std::to_string(step));
    FitProgram program;
    FitOptions all = program.options(3);
    all.callbacks = {std::make_shared<Count>(), at_batch((step - 1) % 6 + 1, [&](FitRun& run) {
                       if (run.step() == step) run.save(path);
                     })};
    program.fit(all);
    FitProgram other;
    const auto count = std::make_shared<Count>();
    all = other.options(3);
    all.callbacks = {count};
    all.resume = path;
    other.fit(all);
    CHECK(count->count == 18);
  }
}

TEST_CASE("fit: a validation that has begun ends, whatever ends it") {
  enum class End { interrupt, bad_label, callback };
  const std::map<End, std::string> messages{
      {End::interrupt, "no error"},
      {End::bad_label, "cross_entropy: label 9 at row 14 is outside 0 .. 1"},
      {End::callback, "no validation"}};
  for (const auto& [end, wanted] : messages) {
    TemporaryDirectory directory;
    FitProgram program;
    AverageWeights average(program.net.parameters(), {.decay = 0.5});
    if (end == End::bad_label) program.other_labels.slice(0, {30, 31}).fill(9);
    State weights;
    const auto watch = std::make_shared<TestCallback>();
    watch->batch_end = [&](FitRun&) { average.update(); };
    watch->validation_begin = [&](FitRun&) {
      weights = arrays_of(program.net.parameters());
      average.swap();
    };
    watch->validation_end = [&](FitRun&) { average.swap(); };
    const auto ends = std::make_shared<TestCallback>();
    ends->validation_begin = [&](FitRun&) {
      if (end == End::interrupt) std::raise(SIGINT);
      if (end == End::callback) throw Error("no validation");
    };
    FitOptions all = program.options(2);
    all.callbacks = {watch, ends};
    all.save_on_interrupt = directory.file("saved");
    const std::string message = interrupted([&] { program.fit(all); });
    CHECK(message == wanted);
    CHECK_FALSE(average.swapped());
    CHECK(arrays_of(program.net.parameters()) == weights);
    if (end != End::interrupt) continue;
    FitProgram other;
    all = other.options(2);
    State resumed;
    const auto look = std::make_shared<TestCallback>();
    look->train_begin = [&](FitRun&) { resumed = arrays_of(other.net.parameters()); };
    all.callbacks = {look};
    all.resume = directory.file("saved");
    other.fit(all);
    CHECK(resumed == weights);
  }
}

TEST_CASE("fit: a resume within an epoch with other batches, another loss or other metrics is refused") {
  TemporaryDirectory directory;
  const std::string within = directory.file("within"), between = directory.file("between");
  {
    FitProgram program;
    FitOptions all = program.options(3);
    all.metrics = {"accuracy", "f1"};
    const auto saves = std::make_shared<TestCallback>();
    saves->batch_end = [&](FitRun& run) {
      if (run.step() == 9) run.save(within);
    };
    saves->epoch_end = [&](FitRun& run, const FitValues&) {
      if (run.epoch() == 0) run.save(between);
    };
    all.callbacks = {saves};
    program.fit(all);
  }
  struct Other {
    const char* text;
    std::function<void(FitProgram&, FitOptions&)> change;
  };
  const std::vector<Other> others{
      {"with batch 16, and there is 8", [](FitProgram&, FitOptions& all) { all.batch = 8; }},
      {"with order by seed 11, and there is by seed 12", [](FitProgram&, FitOptions& all) { all.seed = 12; }},
      {"with order by seed 11, and there is as it is",
       [](FitProgram&, FitOptions& all) { all.shuffle = false; }},
      {"with accumulate 1, and there is 3", [](FitProgram&, FitOptions& all) { all.accumulate = 3; }},
      {"with rows 90, and there is 89",
       [](FitProgram& program, FitOptions&) {
         program.x = program.x.slice(0, {0, 89});
         program.labels = program.labels.slice(0, {0, 89});
       }},
      {"with loss cross_entropy, and there is 0.5 cross_entropy",
       [](FitProgram&, FitOptions& all) {
         all.loss = {{"cross_entropy", 0.5}};
       }},
      {"without the metric 'recall'", [](FitProgram&, FitOptions& all) {
         all.metrics = {"f1", "recall"};
       }}};
  for (const Other& other : others) {
    CAPTURE(other.text);
    FitProgram program;
    FitOptions all = program.options(3);
    all.metrics = {"accuracy", "f1"};
    other.change(program, all);
    const State before = arrays_of(program.net.state());
    all.resume = within;
    const std::string message = message_of([&] { program.fit(all); });
    CAPTURE(message);
    CHECK(contains(message, other.text));
    CHECK(arrays_of(program.net.state()) == before);
    all.resume = between;
    program.fit(all);
    CHECK(program.trainer.steps() >= 10);
  }
  // The same metrics in another order are those of the run, and a function may be the loss that was named.
  std::vector<std::map<std::string, std::vector<double>>> values;
  for (const bool swaps : {false, true}) {
    FitProgram program;
    FitOptions all = program.options(3);
    all.metrics = swaps ? std::vector<FitMetric>{"f1", "accuracy"} : std::vector<FitMetric>{"accuracy", "f1"};
    if (swaps)
      all.loss = [](const std::vector<NDArray>& y, const std::vector<NDArray>& labels) {
        return cross_entropy(y[0], labels[0]);
      };
    all.resume = within;
    values.push_back(program.fit(all).values);
  }
  CHECK(values[0] == values[1]);
}

TEST_CASE("fit: masks and averages are free of the error of a batch that is refused") {
  struct Average : Callback {
    explicit Average(const AverageWeights& weights) : average(weights) {}
    AverageWeights average;
    void on_batch_end(FitRun&) override { average.update(); }
    CallbackState state() const override { return {.arrays = average.state()}; }
    void set_state(const CallbackState& state) override { average.set_state(state.arrays); }
  };
  for (const bool is_label : {false, true}) {
    TwoLayers program;
    NDArray bad_x = program.x.copy(), bad_labels = program.labels.copy();
    is_label ? bad_labels.slice(0, {40, 41}).fill(7) : bad_x.slice(0, {40, 41}).fill(std::nan(""));
    Trainer trainer(program.net.parameters(), {.params = {{"lr", 0.1}}});
    Pruning pruning(program.net, {.sparsity = 0});
    const auto average = std::make_shared<Average>(AverageWeights(program.net.parameters(), {.decay = 0.5}));
    std::map<std::string, State> wanted;
    FitOptions all = program.options();
    all.callbacks = {average, GradualPruning(pruning, {.final_sparsity = 0.5, .end = 20, .every = 1}),
                     at_batch(4, [&](FitRun&) {
                       wanted["masks"] = arrays_of(pruning.masks());
                       wanted["averages"] = arrays_of(average->average.averages());
                     })};
    CHECK(message_of([&] {
            fit(program.net, trainer, {bad_x, bad_labels}, all);
          }) == (is_label ? kBadLabel : kBadInput));
    CHECK(arrays_of(pruning.masks()) == wanted["masks"]);
    CHECK(arrays_of(average->average.averages()) == wanted["averages"]);
    fit(program.net, trainer, {program.x, program.labels}, all);
  }
}

TEST_CASE("fit: Ctrl-C saves under names with places that a resume finds, the one with most steps first") {
  TemporaryDirectory directory;
  const std::string by_step = directory.file("m-{step}"), by_value = directory.file("v-{epoch}-{loss}");
  const auto run = [&](std::int64_t interrupt_at, const std::string& resume, std::int64_t& begun) {
    FitProgram program;
    FitOptions all = program.options(4);
    const auto watch = std::make_shared<TestCallback>();
    watch->train_begin = [&](FitRun& of) { begun = of.step(); };
    watch->batch_end = [&](FitRun& of) {
      if (of.step() == interrupt_at) std::raise(SIGINT);
    };
    all.callbacks = {watch, ModelCheckpoint(by_value)};
    all.save_on_interrupt = by_step;
    all.resume = resume;
    CHECK(interrupted([&] { program.fit(all); }) == "no error");
  };
  std::int64_t begun = -1;
  run(8, by_step, begun);
  CHECK(begun == 0);
  CHECK(files_in(directory).contains("m-8"));
  CHECK(files_in(directory).contains("v-2-nan"));
  run(10, by_value, begun);
  CHECK(begun == 8);
  run(21, by_step, begun);
  CHECK(begun == 10);
  run(-1, by_value, begun);  // v-4-nan, of step 21, before v-3-...
  CHECK(begun == 21);
  run(-1, by_value, begun);  // v-4-0..., of step 24, before v-4-nan
  CHECK(begun == 24);
  // An older version left the places in the name: newer files of numbers come before it, and alone it is found.
  std::filesystem::copy(directory.file("m-8"), by_step);
  run(-1, by_step, begun);
  CHECK(begun == 21);
  for (const char* name : {"m-8", "m-10", "m-21"}) std::filesystem::remove(directory.file(name));
  run(-1, by_step, begun);
  CHECK(begun == 8);
  FitProgram program;
  FitOptions all = program.options(1);
  all.save_on_interrupt = directory.file("m-{stp}");
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }),
                 "save_on_interrupt: there is no value 'stp'"));
}

TEST_CASE("fit: an epoch that ends early is an error") {
  TwoLayers program;
  Trainer trainer(program.net.parameters());
  ArrayBatches batches({program.x, program.labels}, {.batch = 10});
  FitOptions all = program.options();
  all.callbacks = {at_batch(2, [&](FitRun&) { evaluate(program.net, batches, {.loss = "cross_entropy"}); })};
  CHECK(contains(message_of([&] { fit(program.net, trainer, batches, all); }),
                 "epoch 0 has ended after 2 batches, and the data say that there are 8"));
  all.callbacks = {};
  fit(program.net, trainer, batches, all);
  struct Short : ArrayBatches {
    using ArrayBatches::ArrayBatches;
    std::int64_t size() const override { return 9; }
    std::vector<NDArray> next() override {
      return count++ < 3 ? ArrayBatches::next() : std::vector<NDArray>();
    }
    int count = 0;
  } shorter({program.x, program.labels}, {.batch = 10});
  CHECK(contains(message_of([&] { evaluate(program.net, shorter, {.loss = "cross_entropy"}); }),
                 "evaluate: the data have ended after 3 batches, and say that there are 9"));
  shorter.count = 0;
  CHECK(contains(message_of([&] { predict(program.net, shorter, {.inputs = 1}); }),
                 "predict: the data have ended after 3 batches"));
  const NDArray none = program.x.slice(0, {0, 0}), no_labels = program.labels.slice(0, {0, 0});
  CHECK(message_of<InvalidArgument>([&] {
          evaluate(program.net, {none, no_labels}, {.loss = "cross_entropy"});
        }) == "evaluate: the data have no batches");
  CHECK(message_of<InvalidArgument>([&] { predict(program.net, {none}); }) ==
        "predict: the data have no batches");
}

TEST_CASE("fit: steps in a FindNaN are not captured") {
  TwoLayers program;
  Trainer trainer(program.net.parameters());
  const FindNaN finds;
  fit(program.net, trainer, {program.x, program.labels}, program.options());
  FitOptions all = program.options();
  all.capture = FitCapture::always;
  fit(program.net, trainer, {program.x, program.labels}, all);
  CHECK(trainer.steps() == 16);
}

TEST_CASE("fit: a callback without a state in the checkpoint begins anew in a resumed run") {
  TemporaryDirectory directory;
  {
    FitProgram program;
    FitOptions all = program.options(2);
    all.callbacks = {ModelCheckpoint(directory.file("run"))};
    program.fit(all);
  }
  const auto resumed = [&](const AnyCallback& stopping, const AnyCallback& plateau) {
    FitProgram program;
    FitOptions all = program.options(5);
    all.callbacks = {stopping, plateau};
    all.resume = directory.file("run");
    return program.result(program.fit(all));
  };
  const auto stopping = [] {
    return std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "loss", .patience = 9, .restore_best = true});
  };
  const auto plateau = [] {
    return std::make_shared<ReduceOnPlateau>(
        ReduceOnPlateauOptions{.monitor = "loss", .factor = 0.01, .min_delta = 10, .patience = 0});
  };
  const auto used_stopping = stopping();
  const auto used_plateau = plateau();
  {
    FitProgram program({.optimizer = "adam", .params = {{"lr", 0.05}}});
    FitOptions all = program.options(6);
    all.callbacks = {used_stopping, used_plateau};
    program.fit(all);
  }
  CHECK(resumed(used_stopping, used_plateau) == resumed(stopping(), plateau()));
  // A baseline counts from the resume on.
  FitProgram program;
  FitOptions all = program.options(5);
  all.callbacks = {EarlyStopping({.monitor = "loss", .baseline = 0.0})};
  all.resume = directory.file("run");
  const History history = program.fit(all);
  CHECK(history.epochs.size() == 3);
  CHECK(contains(history.stopped, "no better than 0"));
}

TEST_CASE("ModelCheckpoint: one object keeps the best value over several fits") {
  TemporaryDirectory directory;
  const auto best =
      std::make_shared<ModelCheckpoint>(directory.file("best"), ModelCheckpointOptions{.monitor = "loss"});
  FitProgram program;
  FitOptions all = program.options(4);
  all.callbacks = {best};
  program.fit(all);
  const std::string bytes = read_file(directory.file("best"));
  FitProgram worse({.params = {{"lr", 1e-6}}});
  all = worse.options(1);
  all.callbacks = {best};
  worse.fit(all);
  CHECK(read_file(directory.file("best")) == bytes);
}

TEST_CASE("fit: ranks that would train with different settings are refused") {
  const std::vector<std::string> errors = on_two_ranks([](std::size_t rank, std::shared_ptr<KVStore> store) {
    FitProgram program({.params = {{"lr", 0.1}}, .store = std::move(store)});
    for (const bool is_seed : {true, false}) {
      FitOptions all = program.options(1);
      if (is_seed) all.seed = 5 + rank;
      if (!is_seed) all.accumulate = 1 + static_cast<int>(rank);
      const std::string message = message_of([&] { program.fit(all); });
      CAPTURE(message);
      CHECK(contains(message, "the ranks' setup of the training differs"));
      CHECK(program.trainer.steps() == 0);
    }
    program.fit(program.options(1));
  });
  CHECK(errors == kNone);
}

TEST_CASE("fit: a resume within an epoch with what the checkpoint has no setting of is refused") {
  TemporaryDirectory directory;
  const std::string of_batches = directory.file("batches"), of_arrays = directory.file("arrays");
  struct Rows : Batches {
    Rows(ArrayBatches rows, bool knows) : of(std::move(rows)), is_known(knows) {}
    ArrayBatches of;
    bool is_known;
    std::int64_t size() const override { return is_known ? of.size() : -1; }
    void start(std::int64_t epoch, std::int64_t first) override { of.start(epoch, first); }
    std::vector<NDArray> next() override { return of.next(); }
  };
  const auto train = [&](bool has_batches, const std::string& save, const std::string& resume,
                         bool is_known = true) {
    FitProgram program;
    FitOptions all = program.options(2);
    all.resume = resume;
    if (!save.empty()) all.callbacks = {at_step(3, [&](FitRun& run) { run.save(save); })};
    Rows batches(ArrayBatches({program.x, program.labels}, {.batch = 16, .shuffle = true, .seed = 11}),
                 is_known);
    return message_of(
        [&] { has_batches ? fit(program.net, program.trainer, batches, all) : program.fit(all); });
  };
  CHECK(train(true, of_batches, "") == "no error");
  CHECK(train(false, of_arrays, "") == "no error");
  CHECK(train(true, "", of_batches) == "no error");
  CHECK(train(false, "", of_arrays) == "no error");
  CHECK(contains(train(false, "", of_batches), "with batch none, and there is 16"));
  CHECK(contains(train(true, "", of_arrays), "with batch 16, and there is none"));
  // Of an unknown size there is nothing to compare.
  const std::string of_unknown = directory.file("unknown");
  CHECK(train(true, of_unknown, "", false) == "no error");
  CHECK(train(true, "", of_unknown) == "no error");
  CHECK(train(true, "", of_batches, false) == "no error");
}
