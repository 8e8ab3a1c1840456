// Callbacks: their events, values that are read late, those of the library, Ctrl-C.
#include <algorithm>
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

// Every event in order.
struct EventLog : Callback {
  std::vector<std::string> events{};
  void add(const std::string& what, FitRun& run) {
    events.push_back(what + std::to_string(run.epoch()) + "." + std::to_string(run.batch()));
  }
  void on_train_begin(FitRun& run) override { add("train+", run); }
  void on_last_step(FitRun& run) override { add("last", run); }
  void on_train_end(FitRun& run) override { add("train-", run); }
  void on_epoch_begin(FitRun& run) override { add("epoch+", run); }
  void on_epoch_end(FitRun& run, const FitValues&) override { add("epoch-", run); }
  void on_batch_begin(FitRun& run) override { add("batch+", run); }
  void on_batch_end(FitRun& run) override { add("batch-", run); }
  void on_validation_begin(FitRun& run) override { add("val+", run); }
  void on_validation_end(FitRun& run) override { add("val-", run); }
  void on_interrupt(FitRun& run) override { add("interrupt", run); }
};

// A training whose validation loss in each epoch is that of a list: the network is one bias, the learning rate 0, and a
// callback sets the bias.
std::vector<double> fit_with_losses(const std::vector<double>& losses,
                                    const std::shared_ptr<Callback>& callback,
                                    std::vector<double>* rates = nullptr, float* bias = nullptr) {
  struct Bias : Module {
    NDArray value = parameter("value", zeros({1}));
    NDArray forward(const NDArray& x) override { return x + value; }
  } net;
  Trainer trainer(net.parameters(), {.params = {{"lr", 0.5}}});
  auto setter = std::make_shared<TestCallback>();
  setter->batch_end = [&](FitRun& run) {
    net.value.detach().fill(losses[static_cast<std::size_t>(run.epoch())]);
    if (rates) rates->push_back(run.trainer().learning_rate());
  };
  FitOptions all;
  all.loss = {
      LossTerm::Function([](const NDArray& y, const NDArray& label) { return mean(abs(y - label)); })};
  all.capture = FitCapture::never;
  all.epochs = static_cast<std::int64_t>(losses.size());
  all.validation = {zeros({1, 1}), zeros({1, 1})};
  all.callbacks = {setter, callback};
  all.verbose = all.stop_on_nan = false;
  const History history = fit(net, trainer, {zeros({2, 1}), zeros({2, 1})}, all);
  CHECK(trainer.learning_rate() == 0.5);  // whatever the callback has set
  if (bias) *bias = net.value.item<float>();
  return history["val_loss"];
}

}  // namespace

TEST_CASE("callbacks: events come in order, and say where the training is") {
  FitProgram program;
  auto log = std::make_shared<EventLog>();
  FitOptions all = program.options(1);
  all.batch = 60;
  all.callbacks = {log};
  program.fit(all);
  CHECK(log->events == std::vector<std::string>{"train+0.0", "epoch+0.0", "batch+0.0", "batch-0.1",
                                                "batch+0.1", "batch-0.2", "val+0.2", "val-0.2", "epoch-0.2",
                                                "last1.0", "train-1.0"});
}

TEST_CASE("callbacks: values are those of the moment they were asked for, and come later in order") {
  FitProgram program;
  auto watch = std::make_shared<TestCallback>();
  std::vector<double> losses, batch_losses, accuracies;
  std::vector<NDArray> arrays;
  watch->batch_end = [&](FitRun& run) {
    arrays.push_back(run.value("batch_loss"));
    run.later({"loss", "batch_loss"}, [&](const FitValues& values) {
      losses.push_back(values.at("loss"));
      batch_losses.push_back(values.at("batch_loss"));
    });
    run.later({"accuracy"}, [&](const FitValues& values) { accuracies.push_back(values.at("accuracy")); });
  };
  std::size_t at_end = 0;
  watch->epoch_end = [&](FitRun& run, const FitValues& values) {
    at_end = losses.size();
    CHECK(losses.back() == values.at("loss"));
    CHECK(accuracies.back() == values.at("accuracy"));
    CHECK(message_of([&] {
            run.later({"val_loss"}, [](const FitValues&) {});
          }).starts_with("FitRun::value: there is no value 'val_loss'"));
  };
  FitOptions all = program.options(1);
  all.callbacks = {watch};
  program.fit(all);
  CHECK(at_end == 6);
  CHECK(accuracies.size() == 6);
  double sum = 0, rows = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(arrays[i].item().real() == batch_losses[i]);
    const double count = i < 5 ? 16 : 10;
    sum += count * batch_losses[i];
    rows += count;
    CHECK(losses[i] == sum / rows);
  }
}

TEST_CASE("callbacks: stop() ends after the step, and says why") {
  FitProgram program;
  auto watch = std::make_shared<TestCallback>();
  watch->batch_end = [](FitRun& run) {
    if (run.step() == 8) run.stop("enough");
  };
  FitOptions all = program.options(3);
  all.callbacks = {watch};
  const History history = program.fit(all);
  CHECK(program.trainer.steps() == 8);
  CHECK(history.stopped == "enough");
  CHECK_FALSE(history.interrupted);
  CHECK(history["loss"].size() == 1);
}

TEST_CASE("callbacks: a stop on one of two ranks ends both after the same step") {
  const auto ranks = Communicator::create_local(2);
  std::vector<std::int64_t> steps(2);
  std::vector<std::string> reasons(2);
  const auto run = [&](std::size_t rank) {
    Generator initial(1);
    Sequential net{Dense(6, 2, {}, initial)};
    Trainer trainer(net.parameters(), {.store = KVStore::create("allreduce", ranks[rank])});
    const NDArray x = Generator(2).normal({400, 6}), labels = cast(sum(x, {1}) > 0, DType::i64);
    auto watch = std::make_shared<TestCallback>();
    watch->batch_end = [rank](FitRun& at) {
      if (rank == 1 && at.step() == 5) at.stop("enough");
    };
    FitOptions all;
    all.loss = "cross_entropy";
    all.batch = 4;
    all.verbose = false;
    all.callbacks = {watch};
    const History history = fit(net, trainer, {x, labels}, all);
    steps[rank] = trainer.steps();
    reasons[rank] = history.stopped;
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  CHECK(steps == std::vector<std::int64_t>{16, 16});
  CHECK(reasons == std::vector<std::string>{"enough", "enough"});
}

TEST_CASE("EarlyStopping: patience, and the best weights") {
  const auto stopping = [](EarlyStoppingOptions options) { return std::make_shared<EarlyStopping>(options); };
  CHECK(fit_with_losses({5, 3, 4, 3.5, 2, 1}, stopping({})).size() == 3);
  CHECK(fit_with_losses({5, 3, 4, 3.5, 2, 1}, stopping({.patience = 1})).size() == 4);
  CHECK(fit_with_losses({5, 3, 4, 3.5, 2, 1}, stopping({.patience = 2})).size() == 6);
  CHECK(fit_with_losses({5, 3, 2.9, 1}, stopping({.min_delta = 0.5})).size() == 3);
  CHECK(fit_with_losses({5, 3, 2}, stopping({.mode = MonitorMode::max})).size() == 2);
  CHECK(fit_with_losses({5, 4, 3}, stopping({.baseline = 4.5})).size() == 1);
  float bias = 0;
  fit_with_losses({5, 3, 4, 3.5}, stopping({.patience = 1, .restore_best = true}), nullptr, &bias);
  CHECK(bias == 3);
  CHECK(message_of([&] { fit_with_losses({1}, stopping({.monitor = "val_acc"})); }) ==
        "EarlyStopping: there is no value 'val_acc' to monitor; there are loss, val_loss, lr");
}

TEST_CASE("ReduceOnPlateau and LearningRateScheduler: steps follow the rate, captured ones too") {
  std::vector<double> rates;
  fit_with_losses({5, 3, 4, 3.5, 3.2, 1, 1},
                  std::make_shared<ReduceOnPlateau>(ReduceOnPlateauOptions{.factor = 0.5, .patience = 1}),
                  &rates);
  CHECK(rates == std::vector<double>{0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25});

  std::vector<std::vector<float>> weights;
  for (const FitCapture capture : {FitCapture::always, FitCapture::never}) {
    FitProgram program({.params = {{"lr", 0.1}}});
    FitOptions all = program.options(3);
    all.capture = capture;
    all.callbacks = {std::make_shared<LearningRateScheduler>(
        [](std::int64_t epoch, double lr) { return epoch == 0 ? lr : lr * 0.5; })};
    const History history = program.fit(all);
    CHECK(history["lr"] == std::vector<double>{0.1, 0.05, 0.025});
    weights.push_back(program.net.parameters()[0].value.to_vector<float>());
  }
  CHECK(weights[0] == weights[1]);
  CHECK(message_of([] { ReduceOnPlateau({.factor = 2}); }) ==
        "ReduceOnPlateau: factor is 2; want one above 0 and below 1");
}

TEST_CASE("CsvLogger and Progress: what they write") {
  TemporaryDirectory directory;
  FitProgram program;
  FitOptions all = program.options(2);
  std::string text;
  all.callbacks = {
      std::make_shared<CsvLogger>(directory.file("log.csv")),
      std::make_shared<Progress>(ProgressOptions{
          .write = [&](std::string_view part) { text += part; }, .terminal = false, .lines = 2})};
  const History history = program.fit(all);
  const std::string csv = read_file(directory.file("log.csv"));
  CHECK(csv.starts_with("epoch,loss,accuracy,val_loss,val_accuracy,lr\n1,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  CHECK(contains(text, "epoch 1/2  batch 3/6"));
  CHECK(contains(text, " examples/s  0:00 left  loss 0."));
  CHECK(contains(text, "epoch 2/2  loss 0."));
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);

  text.clear();
  FitProgram drawn;
  all = drawn.options(1);
  all.callbacks = {std::make_shared<Progress>(
      ProgressOptions{.write = [&](std::string_view part) { text += part; }, .terminal = true})};
  drawn.fit(all);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.ends_with("\n"));
}

TEST_CASE("ModelCheckpoint: the best, the last ones, every few steps") {
  TemporaryDirectory directory;
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(directory.path))
      names.push_back(one.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  };
  FitProgram program;
  FitOptions all = program.options(3);
  all.callbacks = {
      std::make_shared<ModelCheckpoint>(directory.file("e{epoch}"), ModelCheckpointOptions{.keep = 2}),
      std::make_shared<ModelCheckpoint>(directory.file("s{step}"),
                                        ModelCheckpointOptions{.every_epochs = 0, .every_steps = 7})};
  program.fit(all);
  CHECK(files() == std::vector<std::string>{"e2", "e3", "s14", "s7"});
  fit_with_losses({5, 3, 4, 2},
                  std::make_shared<ModelCheckpoint>(directory.file("best-{val_loss}"),
                                                    ModelCheckpointOptions{.monitor = "val_loss"}));
  CHECK(files() ==
        std::vector<std::string>{"best-2.0000", "best-3.0000", "best-5.0000", "e2", "e3", "s14", "s7"});
  all.callbacks = {std::make_shared<ModelCheckpoint>(directory.file("none/x"))};
  const std::int64_t steps = program.trainer.steps();
  CHECK(contains(message_of<InvalidArgument>([&] { program.fit(all); }), "No such file or directory"));
  CHECK(program.trainer.steps() == steps);
  CHECK(contains(message_of([] { ModelCheckpoint("", {}); }), "the path is empty"));
}

TEST_CASE("ModelCheckpoint: a path that comes again is the newest file") {
  TemporaryDirectory directory;
  fit_with_losses({5, 3, 5, 5}, std::make_shared<ModelCheckpoint>(directory.file("v{val_loss}"),
                                                                  ModelCheckpointOptions{.keep = 2}));
  CHECK(std::filesystem::exists(directory.file("v3.0000")));
  CHECK(std::filesystem::exists(directory.file("v5.0000")));
}

TEST_CASE("EarlyStopping, ReduceOnPlateau and ModelCheckpoint: NaN is never the best") {
  const double nan = std::nan("");
  CHECK(fit_with_losses({nan, 3, 2, 2, nan, 1},
                        std::make_shared<EarlyStopping>(EarlyStoppingOptions{.patience = 1}))
            .size() == 5);
  CHECK(fit_with_losses({nan, nan, 3}, std::make_shared<EarlyStopping>()).size() == 1);
  std::vector<double> rates;
  fit_with_losses({nan, 3, 2, 1},
                  std::make_shared<ReduceOnPlateau>(ReduceOnPlateauOptions{.factor = 0.5, .patience = 1}),
                  &rates);
  CHECK(rates == std::vector<double>{0.5, 0.5, 0.5, 0.5});
  TemporaryDirectory directory;
  fit_with_losses({nan, 3, nan, 2},
                  std::make_shared<ModelCheckpoint>(directory.file("{epoch}"),
                                                    ModelCheckpointOptions{.monitor = "val_loss"}));
  CHECK_FALSE(std::filesystem::exists(directory.file("1")));
  CHECK(std::filesystem::exists(directory.file("2")));
  CHECK_FALSE(std::filesystem::exists(directory.file("3")));
  CHECK(std::filesystem::exists(directory.file("4")));
}

TEST_CASE("Ctrl-C: ends after a step, saves, and the program goes on") {
  TemporaryDirectory directory;
  FitProgram program;
  std::signal(SIGINT, SIG_DFL);  // a shell that starts the test in the background ignores the signal
  auto watch = std::make_shared<TestCallback>();
  watch->batch_end = [](FitRun& run) {
    if (run.step() == 8) std::raise(SIGINT);
  };
  auto log = std::make_shared<EventLog>();
  FitOptions all = program.options(3);
  all.callbacks = {
      watch, log,
      std::make_shared<ModelCheckpoint>(directory.file("run"), ModelCheckpointOptions{.every_epochs = 0})};
  all.save_on_interrupt = directory.file("interrupted");
  const History history = program.fit(all);
  CHECK(history.interrupted);
  CHECK(program.trainer.steps() == 8);
  CHECK(std::vector(log->events.end() - 3, log->events.end()) ==
        std::vector<std::string>{"interrupt1.2", "last1.2", "train-1.2"});
  CHECK(read_file(directory.file("run")) == read_file(directory.file("interrupted")));
  struct sigaction now {};
  ::sigaction(SIGINT, nullptr, &now);
  CHECK((now.sa_handler == SIG_DFL));

  FitProgram other;
  int calls = 0;
  all = other.options(3);
  all.check_interrupt = [&] {
    if (++calls == 4) throw std::runtime_error("stop it");
  };
  all.save_on_interrupt = directory.file("checked");
  CHECK(message_of<std::runtime_error>([&] { other.fit(all); }) == "stop it");
  CHECK(other.trainer.steps() == 4);
  CHECK(std::filesystem::exists(directory.file("checked")));
}
