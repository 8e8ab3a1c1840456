// Memory of captured steps: as much as that of steps that are not captured, and none of it between the launches.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

using Arrays = CapturedStep::Arrays;

struct Use {
  std::size_t peak = 0;   // most bytes of arrays in a step
  std::size_t after = 0;  // bytes of arrays that the steps have made and that are there after them
};

// The memory of training steps after the first few.
Use use_of(Sequential net, const Arrays& batch, bool captured) {
  Trainer trainer(net.parameters(), {.optimizer = "adam"});
  const auto function = [&](const Arrays& given) {
    const NDArray loss = cross_entropy(net(given[0]), given[1]);
    backward(loss);
    trainer.step();
    return loss.detach();
  };
  backward(cross_entropy(net(batch[0]), batch[1]));
  trainer.step();
  current_engine().wait_all();
  track_memory(true);
  CapturedStep step = trainer.capture(CapturedStep::OneResult(function));
  const auto run = [&] {
    const NDArray loss = captured ? step(batch) : function(batch);
    current_engine().wait_all();
  };
  const std::size_t before = memory_report().bytes;
  for (int i = 0; i < 3; ++i) run();
  reset_memory_peak();
  for (int i = 0; i < 4; ++i) run();
  const MemoryReport report = memory_report();
  track_memory(false);
  return {report.peak - before, report.bytes - before};
}

Sequential convolutions() {
  return Sequential{Conv2d(1, 16, 3, {.padding = 1, .relu = true}),
                    MaxPool2d(2),
                    Conv2d(16, 32, 3, {.padding = 1, .relu = true}),
                    MaxPool2d(2),
                    Flatten(),
                    Dense(1568, 64, {.relu = true}),
                    Dense(64, 10)};
}

Sequential perceptron() {
  Sequential net;
  for (int i = 0; i < 8; ++i) net.add(Dense(256, 256, {.relu = true}));
  net.add(Dense(256, 10));
  return net;
}

}  // namespace

TEST_CASE("captured memory: the peak is about that of plain steps, and launches leave little behind") {
  for (const EngineOptions& options : {EngineOptions{.workers = 1}, EngineOptions{.workers = 4},
                                       EngineOptions{.scheduler = Scheduler::naive},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 3}}) {
    CAPTURE(options.workers);
    Engine engine(options);
    const EngineScope scope(engine);
    Generator data(1);
    const NDArray labels = data.integers({64}, 0, 10);
    for (const bool conv : {true, false}) {
      CAPTURE(conv);
      const Arrays batch{conv ? data.normal({64, 1, 28, 28}) : data.normal({64, 256}), labels};
      const Use plain = use_of(conv ? convolutions() : perceptron(), batch, false),
                captured = use_of(conv ? convolutions() : perceptron(), batch, true);
      CAPTURE(plain.peak);
      CAPTURE(captured.peak);
      CAPTURE(captured.after);
      // Arrays below 8 KiB, the batch and the loss stay. A launch may update parameters after the whole backward pass.
      const std::size_t stays = batch[0].storage()->bytes() + 400'000, gradients = conv ? 500'000 : 2'200'000;
      CHECK(captured.peak <= plain.peak * (options.workers > 1 ? 2 : 1) * 11 / 10 + stays + gradients);
      CHECK(captured.after <= stays);
    }
  }
}

TEST_CASE("captured memory: an array that the program keeps has the values of the last launch") {
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    NDArray x = full({64, 64}, 1.0), kept;
    const Graph graph = engine.capture([&] {
      kept = x * 3;
      const NDArray between = kept + 1;
      x.assign(between * 0.25);
    });
    double expected = 1;
    for (int i = 0; i < 10; ++i) {
      graph.launch();
      CHECK(kept(3, 5).item<float>() == doctest::Approx(expected * 3));
      expected = (expected * 3 + 1) * 0.25;
      CHECK(x(63, 63).item<float>() == doctest::Approx(expected));
    }
    const NDArray view = kept[7];
    kept = NDArray();
    graph.launch();
    CHECK(view(0).item<float>() == doctest::Approx(expected * 3));
  }
}

TEST_CASE("captured memory: views, changes in place and parts keep what a launch needs") {
  const auto program = [](bool captured) {
    NDArray x = ones({128, 128});
    std::vector<std::vector<float>> seen;
    const auto body = [&] {
      NDArray whole = zeros({256, 128});
      whole.slice(0, {0, 128}).assign(x * 2);
      NDArray part = whole.slice(0, {64, 192});
      part += 1;
      const NDArray turned = part.transpose() + whole.slice(0, {0, 128});
      x.assign(turned * 0.5);
    };
    const Graph graph = captured ? current_engine().capture(body) : Graph();
    for (int i = 0; i < 5; ++i) {
      captured ? graph.launch() : body();
      seen.push_back(x.to_vector<float>());
    }
    return seen;
  };
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    CHECK(program(true) == program(false));
  }
}

TEST_CASE("captured memory: an array that is only read between launches is not taken away") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  NDArray out = zeros({4096});
  NDArray constant = full({4096}, 7);
  const Graph graph = engine.capture([&] { out.assign(constant + 1); });
  constant = NDArray();  // the graph alone holds it now, and no op of the graph writes it
  for (int i = 0; i < 3; ++i) {
    out.fill(0);
    graph.launch();
    CHECK(out(4095).item<float>() == 8);
  }
}

TEST_CASE("captured step: a scale that is an array changes from launch to launch, without a new capture") {
  for (const char* optimizer : {"sgd", "adam"}) {
    const auto train = [&](int how) {
      NDArray weight = full({300}, 2), large = full({5000}, 1);
      set_requires_grad(weight), set_requires_grad(large);
      Trainer trainer({{"weight", weight}, {"large", large}}, {.optimizer = optimizer});
      const auto body = [&](const Arrays& batch) {
        const NDArray loss = (sum(square(weight)) + sum(large * large)) * batch[0];
        backward(loss);
        how == 2 ? trainer.step(batch[0].item<double>()) : trainer.step(batch[0]);
        return loss.detach();
      };
      CapturedStep step = trainer.capture(CapturedStep::OneResult(body));
      for (int i = 0; i < 6; ++i) {
        const Arrays batch{full({1}, 0.5 / (i + 1), DType::f64)};
        how == 1 ? step(batch) : body(batch);
      }
      CHECK(step.captures() == (how == 1 ? 1 : 0));
      std::vector<float> all = weight.to_vector<float>();
      all.push_back(large(7).item<float>());
      return all;
    };
    CHECK(train(0) == train(2));
    CHECK(train(1) == train(2));
  }
}

TEST_CASE("a scale that is an array: errors") {
  NDArray weight = ones({3});
  set_requires_grad(weight);
  Trainer trainer({{"weight", weight}});
  backward(sum(weight));
  CHECK_THROWS_WITH_AS(trainer.step(NDArray()), doctest::Contains("grad_scale is an undefined array"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(trainer.step(ones({2})),
                       doctest::Contains("scale is f32 (2,) on cpu(0); want one element of f32 or f64"),
                       InvalidArgument);
  CHECK(weight(0).item<float>() == 1);
  trainer.step(full({1}, 2));
  CHECK(trainer.steps() == 1);
}
