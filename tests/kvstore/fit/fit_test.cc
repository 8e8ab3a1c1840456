// fit(): the same training as a loop by hand, on all engines; options, several inputs and losses, errors.
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

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 2},
                                          {.workers = 4},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1},
                                          {.scheduler = Scheduler::fuzz, .seed = 2}};

// The training of FitProgram::options(), written out.
FitResult by_hand(std::int64_t epochs) {
  FitProgram program;
  History history;
  ArrayBatches batches({program.x, program.labels}, {.batch = 16, .shuffle = true, .seed = 11});
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    double losses = 0, right = 0, rows = 0, lr = 0;
    batches.start(epoch);
    for (auto batch = batches.next(); !batch.empty(); batch = batches.next()) {
      const NDArray outputs = program.net(batch[0]);
      const NDArray loss = cross_entropy(outputs, batch[1]);
      backward(loss);
      lr = program.trainer.learning_rate();
      program.trainer.step();
      const auto count = static_cast<double>(batch[0].shape()[0]);
      losses += count * static_cast<double>(loss.item<float>());
      right += sum(cast(equal(argmax(outputs, 1), batch[1]), DType::f64)).item<double>();
      rows += count;
    }
    history.values["loss"].push_back(losses / rows);
    history.values["accuracy"].push_back(right / rows);
    history.values["lr"].push_back(lr);
    program.net.train(false);
    const NoGrad no_grad;
    double other_losses = 0, other_right = 0;
    for (const Slice part : {Slice{0, 16}, Slice{16, 32}, Slice{32, 37}}) {
      const NDArray outputs = program.net(program.other_x.slice(0, part));
      const NDArray wanted = program.other_labels.slice(0, part);
      other_losses += static_cast<double>(wanted.size()) *
                      static_cast<double>(cross_entropy(outputs, wanted).item<float>());
      other_right += sum(cast(equal(argmax(outputs, 1), wanted), DType::f64)).item<double>();
    }
    program.net.train(true);
    history.values["val_loss"].push_back(other_losses / 37);
    history.values["val_accuracy"].push_back(other_right / 37);
  }
  return program.result(history);
}

// Batches of a list, as a class of a program has them.
class ListBatches : public Batches {
 public:
  explicit ListBatches(std::vector<std::vector<NDArray>> list) : list_(std::move(list)) {}
  std::int64_t size() const override { return -1; }
  void start(std::int64_t epoch, std::int64_t first) override {
    started.emplace_back(epoch, first);
    next_ = static_cast<std::size_t>(first);
  }
  std::vector<NDArray> next() override {
    return next_ < list_.size() ? list_[next_++] : std::vector<NDArray>();
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> started{};

 private:
  std::vector<std::vector<NDArray>> list_;
  std::size_t next_ = 0;
};

}  // namespace

TEST_CASE("fit: the same bits as a loop by hand, captured or not, on all engines") {
  for (const EngineOptions& options : kEngines) {
    CAPTURE(options.workers);
    Engine engine(options);
    const EngineScope scope(engine);
    const FitResult wanted = by_hand(3);
    for (const FitCapture capture : {FitCapture::automatic, FitCapture::always, FitCapture::never}) {
      FitProgram program;
      FitOptions all = program.options();
      all.capture = capture;
      const History history = program.fit(std::move(all));
      const FitResult result = program.result(history);
      CHECK(result.state == wanted.state);
      CHECK(result.values == wanted.values);
      CHECK(result.steps == 18);
      CHECK(history.epochs == std::vector<std::int64_t>{0, 1, 2});
      CHECK(history["loss"].back() < history["loss"].front());
      CHECK(history.stopped.empty());
    }
  }
}

TEST_CASE("fit: batches of a program's class, whose number is not known before") {
  FitProgram program;
  ListBatches batches({{program.x.slice(0, {0, 45}), program.labels.slice(0, {0, 45})},
                       {program.x.slice(0, {45, 90}), program.labels.slice(0, {45, 90})}});
  FitOptions all = program.options(2);
  std::vector<std::int64_t> sizes;
  auto watch = std::make_shared<TestCallback>();
  watch->epoch_begin = [&](FitRun& run) { sizes.push_back(run.batches()); };
  all.callbacks = {watch};
  const History history = fit(program.net, program.trainer, batches, all);
  CHECK(program.trainer.steps() == 4);
  CHECK(sizes == std::vector<std::int64_t>{-1, 2});
  CHECK(batches.started == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 0}});
}

TEST_CASE("fit: gradients of several batches make one step, clipped as their mean") {
  for (const FitCapture capture : {FitCapture::always, FitCapture::never}) {
    Generator initial(1), initial_2(1);
    Dense net(6, 2, {}, initial), same(6, 2, {}, initial_2);
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.5}}}),
        by_hand_trainer(same.parameters(), {.params = {{"lr", 0.5}}});
    const NDArray x = Generator(2).normal({40, 6}), y = Generator(3).integers({40}, 0, 2);
    FitOptions all;
    all.loss = "cross_entropy";
    all.batch = 8;  // five batches: two steps of two, and one of one
    all.shuffle = all.verbose = false;
    all.accumulate = 2;
    all.clip_norm = 0.05;
    all.capture = capture;
    all.epochs = 2;
    fit(net, trainer, {x, y}, all);
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const std::vector<int>& group : {std::vector<int>{0, 1}, {2, 3}, {4}}) {
        for (const int i : group)
          backward(cross_entropy(same(x.slice(0, {i * 8, i * 8 + 8})), y.slice(0, {i * 8, i * 8 + 8})));
        const auto count = static_cast<double>(group.size());
        clip_grad_norm(same.parameters(), 0.05 * count);
        by_hand_trainer.step(1 / count);
      }
    }
    CHECK(trainer.steps() == 6);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(net.parameters()[i].value.to_vector<float>() == same.parameters()[i].value.to_vector<float>());
  }
}

TEST_CASE("fit: a model with three inputs and two outputs, weighted losses and a metric of each") {
  Symbol title = input("title", {kInferred, 5}), body = input("body", {kInferred, 7}),
         tags = input("tags", {kInferred, 3});
  Symbol both = connect("concat", {{title, body, tags}, 1});
  Model router({title, body, tags}, {connect(Dense(kInferred, 1), both), connect(Dense(kInferred, 4), both)});
  Trainer trainer(router.parameters(), {.optimizer = "adam", .params = {{"lr", 0.01}}});
  Generator data(4);
  const NDArray a = data.normal({48, 5}), b = data.normal({48, 7}), c = data.normal({48, 3});
  const NDArray priority = cast(sum(a, {1}) > 0, DType::f32).view_as({48, 1}),
                department = data.integers({48}, 0, 4);
  FitOptions all;
  all.loss = {{"bce_with_logits", 0.5}, {"cross_entropy"}};
  all.metrics = {{"accuracy", 1}};
  all.outputs = {"priority", "department"};
  all.epochs = 4;
  all.verbose = false;
  const History history = fit(router, trainer, {a, b, c, priority, department}, all);
  for (std::size_t epoch = 0; epoch < 4; ++epoch) {
    const double sum = 0.5 * history["priority_loss"][epoch] + history["department_loss"][epoch];
    CHECK(history["loss"][epoch] == doctest::Approx(sum).epsilon(1e-5));
  }
  CHECK(history["loss"].back() < history["loss"].front());
  CHECK(history["department_accuracy"].size() == 4);

  const FitValues values = evaluate(router, {a, b, c, priority, department},
                                    {.loss = all.loss, .metrics = {{"accuracy", 1}}, .outputs = all.outputs});
  CHECK(values.size() == 4);
  const std::vector<NDArray> outputs = predict(router, {a, b, c, priority, department}, {.batch = 10});
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].shape() == Shape{48, 1});
  CHECK(outputs[1].shape() == Shape{48, 4});
  const NoGrad no_grad;
  CHECK(max(abs(outputs[1] - router.run({a, b, c})[1])).item<float>() < 1e-6f);  // batches of other sizes
  CHECK(values.at("department_accuracy") ==
        mean(cast(equal(argmax(outputs[1], 1), department), DType::f64)).item<double>());
}

TEST_CASE("fit: a loss of the program's own, which reads a number, is not captured by itself") {
  FitProgram program;
  FitOptions all = program.options(2);
  int calls = 0;
  all.loss = [&](const std::vector<NDArray>& outputs, const std::vector<NDArray>& wanted) {
    ++calls;
    return cross_entropy_with(outputs[0], wanted[0], {.smoothing = 0.1});
  };
  program.fit(all);
  CHECK(calls == 2 * (6 + 3));

  struct Waiting : Module {
    NDArray weight = parameter("weight", ones({6, 2}));
    NDArray forward(const NDArray& x) override {
      const NDArray y = matmul(x, weight);
      return y.detach().copy().to_vector<float>()[0] > 100 ? y * 2 : y;
    }
  } waiting;
  Trainer trainer(waiting.parameters());
  FitOptions plain = program.options(1);
  CHECK(fit(waiting, trainer, {program.x, program.labels}, plain)["loss"].size() == 1);
  plain.capture = FitCapture::always;
  Trainer again(waiting.parameters());
  CHECK_THROWS_AS(fit(waiting, again, {program.x, program.labels}, plain), Error);
}

TEST_CASE("fit: modes of modules are as before, also after an exception") {
  FitProgram program;
  auto frozen = std::make_shared<BatchNorm>(6);
  Sequential net;
  net.add(frozen);
  net.add(Dense(6, 2));
  frozen->train(false);
  Trainer trainer(net.parameters());
  auto fails = std::make_shared<TestCallback>();
  FitOptions all = program.options(1);
  bool trains = false, statistics_move = true;
  fails->batch_end = [&](FitRun& run) {
    trains = run.net().training();
    statistics_move = frozen->training();
  };
  all.callbacks = {fails};
  fit(net, trainer, {program.x, program.labels}, all);
  CHECK(trains);
  CHECK_FALSE(statistics_move);
  CHECK(net.training());
  CHECK_FALSE(frozen->training());

  net.train(false);
  fails->batch_end = [](FitRun& run) {
    if (run.step() == 8) throw std::runtime_error("no more");
  };
  CHECK(message_of<std::runtime_error>([&] {
          fit(net, trainer, {program.x, program.labels}, all);
        }) == "no more");
  CHECK_FALSE(net.training());
  CHECK_FALSE(frozen->training());
}

TEST_CASE("fit: a loss that is not finite names where it comes from, and leaves the parameters before it") {
  for (const FitCapture capture : {FitCapture::always, FitCapture::never}) {
    struct Logarithm : Module {
      NDArray forward(const NDArray& x) override { return log(x); }
    };
    Generator initial(1);
    Sequential net{Dense(3, 4, {}, initial), Sequential{Sigmoid(), Logarithm()}, Dense(4, 1, {}, initial)};
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.01}}});
    NDArray x = Generator(2).normal({32, 3});
    x.slice(0, {20, 21}).fill(-1e30);
    x.slice(0, {21, 22}).fill(1e30);
    FitOptions all;
    all.loss = "mse_loss";
    all.batch = 8;
    all.epochs = 3;
    all.shuffle = all.verbose = false;
    all.capture = capture;
    std::vector<std::vector<float>> before;
    auto watch = std::make_shared<TestCallback>();
    watch->batch_begin = [&](FitRun& run) {
      if (run.batch() != 2) return;
      for (const Parameter& one : net.parameters()) before.push_back(one.value.to_vector<float>());
    };
    all.callbacks = {watch};
    const std::string message = message_of([&] { fit(net, trainer, {x, ones({32, 1})}, all); });
    CAPTURE(message);
    CHECK(contains(message, "epoch 0, batch 2"));
    CHECK(contains(message, "'1.1', "));
    CHECK(contains(message, "Logarithm"));
    CHECK(contains(message, "infinity"));
    CHECK(trainer.steps() == 2);
    REQUIRE(before.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(net.parameters()[i].value.to_vector<float>() == before[i]);
    all.stop_on_nan = false;
    all.callbacks = {};
    all.epochs = 1;
    CHECK_FALSE(std::isfinite(fit(net, trainer, {x, ones({32, 1})}, all)["loss"][0]));
  }
}

TEST_CASE("fit: errors say what came and what is wanted, before anything is trained") {
  FitProgram program;
  const auto refused = [&](const std::function<void(FitOptions&)>& change) {
    FitOptions all = program.options();
    change(all);
    return message_of<InvalidArgument>([&] { program.fit(all); });
  };
  CHECK(contains(refused([](FitOptions& all) { all.loss = {}; }), "fit: there is no loss; want a name"));
  CHECK(contains(refused([](FitOptions& all) { all.loss = "cross"; }),
                 "there is no loss 'cross'; there are bce"));
  CHECK(contains(refused([](FitOptions& all) { all.epochs = -1; }), "fit: epochs is -1; want 0 or more"));
  CHECK(
      contains(refused([](FitOptions& all) { all.accumulate = 0; }), "fit: accumulate is 0; want 1 or more"));
  CHECK(contains(refused([](FitOptions& all) { all.callbacks = {std::shared_ptr<Callback>()}; }),
                 "callback 0 is null"));
  CHECK(contains(refused([](FitOptions& all) {
                   all.metrics = {"accuracy", "accuracy"};
                 }),
                 "two values are called"));
  CHECK(contains(refused([](FitOptions& all) { all.metrics = {{"accuracy", 1}}; }), "is of output 1"));
  CHECK(contains(refused([](FitOptions& all) { all.metrics = {std::make_shared<ConfusionMatrix>()}; }),
                 "want one with one number"));
  CHECK(contains(refused([](FitOptions& all) {
                   all.loss = {"cross_entropy", "cross_entropy"};
                 }),
                 "a batch has 2 arrays; want the inputs and 2 labels"));
  CHECK(contains(refused([](FitOptions& all) { all.batch = 0; }), "batch is 0"));
  CHECK(contains(refused([](FitOptions& all) { all.loss = [](const auto& y, const auto&) { return y[0]; }; }),
                 "the loss is (16, 2); want a scalar"));
  CHECK(contains(message_of([&] { fit(program.net, program.trainer, FitData(), program.options()); }),
                 "there are no data"));
  CHECK(contains(message_of([&] {
                   fit(program.net, program.trainer, {program.x, program.other_labels}, program.options());
                 }),
                 "array 1 is (37,); want 90 rows"));
  ListBatches empty({});
  CHECK(contains(message_of([&] { fit(program.net, program.trainer, empty, program.options()); }),
                 "epoch 0 has no batches"));
}

TEST_CASE("fit: ranks of an allreduce store train as one, and have the same values") {
  const auto run = [](const std::shared_ptr<KVStore>& store, FitCapture capture, History& history) {
    Generator initial(1);
    Sequential net{Dense(6, 8, {.relu = true}, initial), Dense(8, 2, {}, initial)};
    const NDArray x = Generator(2).normal({64, 6}), labels = cast(sum(x, {1}) > 0, DType::i64);
    const NDArray other = Generator(3).normal({21, 6}), other_labels = cast(sum(other, {1}) > 0, DType::i64);
    Trainer trainer(net.parameters(), {.params = {{"lr", 0.2}}, .store = store});
    FitOptions all;
    all.loss = "cross_entropy";
    all.metrics = {"accuracy"};
    all.validation = {other, other_labels};
    all.epochs = 5;
    all.batch = 16;
    all.verbose = false;
    all.capture = capture;
    history = fit(net, trainer, {x, labels}, all);
    return net.parameters()[0].value.to_vector<float>();
  };
  History alone;
  const std::vector<float> wanted = run(KVStore::create("local"), FitCapture::automatic, alone);
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    const auto ranks = Communicator::create_local(2);
    std::vector<History> histories(2);
    std::vector<std::vector<float>> weights(2);
    const auto of_rank = [&](std::size_t rank) {
      weights[rank] = run(KVStore::create("allreduce", ranks[rank]), capture, histories[rank]);
    };
    std::thread other(of_rank, 1);
    of_rank(0);
    other.join();
    CHECK(weights[0] == weights[1]);
    CHECK(histories[0].values == histories[1].values);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      CHECK(weights[0][i] == doctest::Approx(wanted[i]).epsilon(1e-4));
    for (std::size_t epoch = 0; epoch < 5; ++epoch) {
      CHECK(histories[0]["loss"][epoch] == doctest::Approx(alone["loss"][epoch]).epsilon(1e-4));
      CHECK(histories[0]["val_accuracy"][epoch] == alone["val_accuracy"][epoch]);
    }
  }
}

TEST_CASE("evaluate and predict: in inference, without gradients, of all batches") {
  FitProgram program;
  program.net.train(true);
  const FitValues values = evaluate(program.net, {program.x, program.labels},
                                    {.loss = "cross_entropy", .metrics = {"accuracy"}, .batch = 7});
  CHECK(program.net.training());
  program.net.train(false);
  const NoGrad no_grad;
  const NDArray outputs = program.net(program.x);
  CHECK(values.at("loss") ==
        doctest::Approx(cross_entropy(outputs, program.labels).item<float>()).epsilon(1e-5));
  const std::vector<NDArray> predicted = predict(program.net, {program.x, program.labels}, {.batch = 7});
  REQUIRE(predicted.size() == 1);
  CHECK_FALSE(predicted[0].requires_grad());
  CHECK(allclose(predicted[0], outputs, 1e-5, 1e-6));
  CHECK(predict(program.net, {program.x})[0].shape() == Shape{90, 2});
  CHECK(contains(message_of([&] {
                   evaluate(program.net, {program.x, program.labels}, {});
                 }),
                 "neither a loss nor a metric"));
  CHECK(contains(message_of([&] { predict(program.net, {program.x}, {.inputs = 2}); }),
                 "has 2 inputs, and a batch 1"));
}
