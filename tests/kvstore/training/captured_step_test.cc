// Captured training steps: the same training, bit for bit, as without a capture.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = CapturedStep::Arrays;

// What a training run has computed.
struct Run {
  std::vector<float> losses{};
  std::vector<std::vector<float>> state{};  // parameters, statistics and the optimizer's arrays
  std::int64_t steps = 0, captures = 0;
  bool operator==(const Run& other) const {
    return losses == other.losses && state == other.state && steps == other.steps;
  }
};

struct Setup {
  TrainerOptions options{};
  int steps = 30;
  std::function<void(Module& net, int step)> between = [](Module&, int) {};  // called before each step
};

// A training run: `loss` of a batch, which `batch_of` makes of the step's number.
template <class Net, class Loss, class Batch>
Run train(bool captured, Net net, const Setup& setup, const Loss& loss, const Batch& batch_of) {
  Trainer trainer(net.parameters(), setup.options);
  const auto function = [&](const Arrays& batch) {
    const NDArray value = loss(net, batch);
    backward(value);
    trainer.step(0.5);
    return value;
  };
  CapturedStep step = trainer.capture(function);
  std::vector<NDArray> losses;
  for (int i = 0; i < setup.steps; ++i) {
    setup.between(net, i);
    const Arrays batch = batch_of(i);
    losses.push_back(captured ? step(batch) : function(batch).detach());
  }
  Run run{.steps = trainer.steps(), .captures = step.captures()};
  for (const NDArray& one : losses) run.losses.push_back(one.item<float>());
  for (const Parameter& one : net.state())
    run.state.push_back(one.value.astype(DType::f32).template to_vector<float>());
  for (const auto& [name, value] : trainer.state())
    run.state.push_back(value.astype(DType::f32).template to_vector<float>());
  return run;
}

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 2},
                                          {.workers = 4},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1},
                                          {.scheduler = Scheduler::fuzz, .seed = 2}};

// Compares program(captured) with and without captures, on all engines.
void check_equal(const std::function<Run(bool captured)>& program, std::int64_t captures = 1) {
  for (const EngineOptions& options : kEngines) {
    CAPTURE(options.workers);
    Engine engine(options);
    const EngineScope scope(engine);
    manual_seed(5);
    const Run plain = program(false);
    manual_seed(5);
    const Run captured = program(true);
    CHECK(captured == plain);
    CHECK(captured.captures == captures);
    CHECK(plain.losses.back() != plain.losses.front());
  }
}

// Compares program(captured) with and without captures on the default engine; returns the run.
Run check_same(const std::function<Run(bool captured)>& program, std::uint64_t seed = 1) {
  manual_seed(seed);
  const Run plain = program(false);
  manual_seed(seed);
  const Run captured = program(true);
  CHECK(captured == plain);
  return captured;
}

Sequential perceptron() {
  Generator initial(1);
  return Sequential{Dense(6, 32, {.relu = true}, initial), Dropout(0.3),
                    Dense(32, 16, {.relu = true}, initial), AlphaDropout(0.1), Dense(16, 3, {}, initial)};
}

// A batch of that many samples, of other numbers for each step.
Arrays points(int step, std::int64_t count) {
  Generator data(static_cast<std::uint64_t>(100 + step));
  return {data.normal({count, 6}), data.integers({count}, 0, 3)};
}

NDArray classes_loss(const Module& net, const Arrays& batch) {
  return cross_entropy(const_cast<Module&>(net)(batch[0]), batch[1]);
}

Arrays batch_of_16(int step) { return points(step, 16); }

}  // namespace

TEST_CASE("captured step: a perceptron with dropout and Adam, a schedule, and a smaller last batch") {
  const Setup setup{.options = {.optimizer = "adam", .schedule = cosine_schedule(0.02, 30)}};
  check_equal([&](bool captured) { return train(captured, perceptron(), setup, classes_loss, batch_of_16); });
  check_equal(
      [&](bool captured) {
        return train(captured, perceptron(), setup, classes_loss,
                     [](int step) { return points(step, step % 3 == 2 ? 5 : 16); });
      },
      2);
}

TEST_CASE("captured step: every optimizer, with groups of parameters and a schedule") {
  for (const OptimizerInfo& optimizer : optimizers()) {
    CAPTURE(optimizer.name);
    const Setup setup{.options = {.optimizer = optimizer.name,
                                  .schedule = cosine_schedule(0.01, 12),
                                  .groups = {{.pattern = "*bias", .lr = 2, .weight_decay = 0},
                                             {.pattern = "4.*", .lr = 0.5}}},
                      .steps = 12};
    const auto program = [&](bool captured) {
      return train(captured, perceptron(), setup, classes_loss, batch_of_16);
    };
    CHECK(check_same(program, 5).captures == 1);
  }
}

TEST_CASE("captured step: gradients are clipped, and averages follow the weights") {
  check_equal([](bool captured) {
    Sequential net = perceptron();
    Trainer trainer(net.parameters(), {.optimizer = "adam"});
    AverageWeights average(net.parameters());
    const auto function = [&](const Arrays& batch) {
      const NDArray loss = classes_loss(net, batch);
      backward(loss);
      clip_grad_norm(net.parameters(), 0.1);
      trainer.step(1);
      average.update();
      return loss;
    };
    CapturedStep step = trainer.capture(function);
    Run run;
    for (int i = 0; i < 10; ++i) {
      const Arrays batch = batch_of_16(i);
      run.losses.push_back((captured ? step(batch) : function(batch).detach()).item<float>());
    }
    run.captures = step.captures();
    for (const auto& [name, value] : average.state())
      run.state.push_back(value.astype(DType::f32).to_vector<float>());
    return run;
  });
}

TEST_CASE("captured step: a convolutional network with batch normalisation and SGD with momentum") {
  check_equal([](bool captured) {
    Generator initial(1);
    Sequential net{Conv2d(1, 4, 3, {.relu = true}, initial), BatchNorm(4), MaxPool2d(2), Flatten(),
                   Dense(36, 3, {}, initial)};
    return train(captured, net,
                 {.options = {.optimizer = "sgd", .params = {{"lr", 0.05}, {"momentum", 0.9}}}}, classes_loss,
                 [](int step) {
                   Generator data(static_cast<std::uint64_t>(step));
                   return Arrays{data.normal({8, 1, 8, 8}), data.integers({8}, 0, 3)};
                 });
  });
}

TEST_CASE("captured step: an LSTM over sequences of several lengths") {
  check_equal([](bool captured) {
    Generator initial(1);
    Lstm lstm(4, 6, {.layers = 2, .dropout = 0.2}, initial);
    return train(
        captured, lstm, {.options = {.optimizer = "adam"}},
        [](Lstm& net, const Arrays& batch) {
          const RecurrentOutput out = net(batch[0], {.lengths = batch[1]});
          return mean(square(out.output)) + mean(square(out.h - 1.0f));
        },
        [](int step) {
          Generator data(static_cast<std::uint64_t>(step));
          return Arrays{data.normal({5, 7, 4}), data.integers({5}, 1, 8)};
        });
  });
}

TEST_CASE("captured step: a transformer's block with dropout in attention") {
  check_equal([](bool captured) {
    Generator initial(1);
    TransformerBlock block(8, 2, {.causal = true, .rotary = true, .dropout = 0.2}, initial);
    return train(
        captured, block, {.options = {.optimizer = "adamw", .schedule = step_schedule(0.01, 10, 0.5)}},
        [](TransformerBlock& net, const Arrays& batch) { return mean(square(net(batch[0]) - batch[1])); },
        [](int step) {
          Generator data(static_cast<std::uint64_t>(step));
          return Arrays{data.normal({3, 6, 8}), data.normal({3, 6, 8})};
        });
  });
}

TEST_CASE("captured step: an embedding with row-sparse gradients") {
  check_equal([](bool captured) {
    Generator initial(1);
    Sequential net{Embedding(20, 6, {.sparse_grad = true}, initial), Flatten(), Dense(18, 3, {}, initial)};
    return train(captured, net, {.options = {.optimizer = "adam"}}, classes_loss, [](int step) {
      Generator data(static_cast<std::uint64_t>(step));
      return Arrays{data.integers({8, 3}, 0, 20), data.integers({8}, 0, 3)};
    });
  });
}

TEST_CASE("captured step: changes between steps, of modes, of parameters, and of the seed") {
  const auto between = [](Module& net, int step) {
    if (step % 10 == 5) {  // an evaluation, which leaves the modes as they were
      net.train(false);
      (void)net(points(0, 4)[0]);
      net.train(true);
    }
    if (step == 12) net.parameters()[0].value.detach().fill(0.01);
    if (step == 20) manual_seed(9);
  };
  check_equal([&](bool captured) {
    return train(captured, perceptron(), {.between = between}, classes_loss, batch_of_16);
  });
  const auto modes = [](Module& net, int step) { net.train(step / 5 % 2 == 0); };
  check_equal(
      [&](bool captured) {
        return train(captured, perceptron(), {.between = modes}, classes_loss, batch_of_16);
      },
      2);
}

TEST_CASE("captured step: a failed step is cleared as others are, and training goes on") {
  for (const EngineOptions& options : kEngines) {
    Engine engine(options);
    const EngineScope scope(engine);
    const auto program = [](bool captured) {
      Sequential net = perceptron();
      Trainer trainer(net.parameters(), {.optimizer = "adam"});
      const auto function = [&](const Arrays& batch) {
        const NDArray loss = classes_loss(net, batch);
        backward(loss);
        trainer.step();
        return loss;
      };
      CapturedStep step = trainer.capture(function);
      Run run;
      for (int i = 0; i < 12; ++i) {
        Arrays batch = batch_of_16(i);
        if (i == 6) batch[1] = full({16}, 7, DType::i64);
        const NDArray loss = captured ? step(batch) : function(batch);
        if (i == 6) {
          CHECK_THROWS_AS(loss.wait(), InvalidArgument);
          trainer.clear_errors();
          CHECK(trainer.steps() == 6);
        } else {
          run.losses.push_back(loss.item<float>());
        }
      }
      for (const Parameter& one : net.parameters()) run.state.push_back(one.value.to_vector<float>());
      run.steps = trainer.steps();
      return run;
    };
    CHECK(check_same(program).steps == 11);
  }
}

TEST_CASE("captured step: a state that is set, as from a checkpoint, is that of the later steps") {
  const auto program = [](bool captured) {
    Sequential net = perceptron();
    Trainer trainer(net.parameters(), {.optimizer = "adam"});
    const auto function = [&](const Arrays& batch) {
      const NDArray loss = classes_loss(net, batch);
      backward(loss);
      trainer.step();
      return loss;
    };
    CapturedStep step = trainer.capture(function);
    Run run;
    std::map<std::string, NDArray> saved;
    for (int i = 0; i < 10; ++i) {
      if (i == 4)
        for (const auto& [name, value] : trainer.state()) saved[name] = value.copy();
      if (i == 7) trainer.set_state(saved);
      run.losses.push_back((captured ? step(batch_of_16(i)) : function(batch_of_16(i))).item<float>());
    }
    run.steps = trainer.steps();
    return run;
  };
  CHECK(check_same(program).steps == 7);
}

TEST_CASE("captured step: results stay as they were, in lists too, and the function is called twice") {
  Sequential net = perceptron();
  Trainer trainer(net.parameters());
  int calls = 0;
  CapturedStep step = trainer.capture([&](const Arrays& batch) -> Arrays {
    ++calls;
    const NDArray scores = net(batch[0]), loss = cross_entropy(scores, batch[1]);
    backward(loss);
    trainer.step();
    return {loss, scores, NDArray(), batch[0]};
  });
  std::vector<Arrays> all;
  for (int i = 0; i < 5; ++i) all.push_back(step.run(batch_of_16(i)));
  CHECK(calls == 2);
  CHECK(step.graphs() == 1);
  for (int i = 0; i < 5; ++i) {
    const Arrays& results = all[static_cast<std::size_t>(i)];
    REQUIRE(results.size() == 4);
    CHECK(results[0].item<float>() == cross_entropy(results[1], batch_of_16(i)[1]).item<float>());
    CHECK_FALSE(results[2].defined());
    CHECK(results[3].to_vector<float>() == batch_of_16(i)[0].to_vector<float>());
    CHECK_FALSE(requires_grad(results[0]));
  }
  CHECK_THROWS_WITH_AS(step(batch_of_16(0)), doctest::Contains("has returned 4 arrays"), InvalidArgument);
  step.reset();
  CHECK(step.graphs() == 0);
  for (int i = 0; i < 3; ++i) (void)step.run(batch_of_16(0));
  CHECK(calls == 4);
}

TEST_CASE("captured step: few graphs are kept, and launches take no more memory") {
  Sequential net = perceptron();
  Trainer trainer(net.parameters());
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray loss = classes_loss(net, batch);
    backward(loss);
    trainer.step();
    return loss;
  });
  for (int round = 0; round < 2; ++round)
    for (std::int64_t size = 1; size <= 12; ++size)
      for (int i = 0; i < 2; ++i) (void)step(points(0, size));
  CHECK(step.graphs() == CapturedStep::kMostGraphs);
  const Arrays batch = batch_of_16(0);
  std::size_t before = 0;
  for (int i = 0; i < 1100; ++i) {
    step(batch).wait();
    if (i == 100) before = cpu_allocator_stats().in_use;
  }
  current_engine().wait_all();
  CHECK(cpu_allocator_stats().in_use <= before);
}

TEST_CASE("captured step: gradients that are there already are added to") {
  const auto program = [](bool captured) {
    Sequential net = perceptron();
    Trainer trainer(net.parameters());
    const auto function = [&](const Arrays& batch) {
      const NDArray loss = classes_loss(net, batch);
      backward(loss);
      trainer.step();
      return loss;
    };
    CapturedStep step = trainer.capture(function);
    Run run;
    for (int i = 0; i < 12; ++i) {
      if (i % 4 == 3) backward(classes_loss(net, batch_of_16(100 + i)));
      run.losses.push_back((captured ? step(batch_of_16(i)) : function(batch_of_16(i))).item<float>());
    }
    return run;
  };
  manual_seed(1);
  const Run plain = program(false);
  manual_seed(1);
  CHECK(program(true) == plain);
}

TEST_CASE("captured step: what cannot be captured is an error, and changes nothing") {
  Sequential net = perceptron();
  Trainer trainer(net.parameters());
  bool waits = true, steps = true;
  int line_of_wait = 0;
  const auto function = [&](const Arrays& batch) {
    const NDArray loss = classes_loss(net, batch);
    backward(loss);
    if (waits) line_of_wait = __LINE__, (void)loss.item<float>();
    if (steps) trainer.step();
    return loss;
  };
  CapturedStep step = trainer.capture(function);
  (void)step(batch_of_16(0));
  const std::string line = "captured_step_test.cc:" + std::to_string(line_of_wait);
  CHECK_THROWS_WITH_AS((void)step(batch_of_16(1)),
                       doctest::Contains("wait while this thread captures a graph"), Error);
  CHECK_THROWS_WITH_AS((void)step(batch_of_16(1)), doctest::Contains(line.c_str()), Error);
  CHECK(trainer.steps() == 1);
  waits = false;
  (void)step(batch_of_16(1));
  CHECK(trainer.steps() == 2);
  CHECK(step.captures() == 1);
  step.reset();
  (void)step(batch_of_16(2));
  steps = false;
  CHECK(message_of<InvalidArgument>([&] { (void)step(batch_of_16(2)); }).find("leaves gradients behind") !=
        std::string::npos);
  steps = true;
  (void)step(batch_of_16(2));
  Engine& engine = net.parameters()[0].value.engine();
  CHECK(message_of<Error>([&] {
          (void)engine.capture([&] { (void)step(batch_of_16(0)); });
        }).find("called while this thread captures a graph") != std::string::npos);
  CHECK_THROWS_AS((void)step({NDArray(), NDArray()}), InvalidArgument);
  NDArray leaf = points(0, 16)[0];
  set_requires_grad(leaf);
  CHECK_THROWS_WITH_AS((void)step({leaf, points(0, 16)[1]}), doctest::Contains("requires a gradient"),
                       InvalidArgument);
  CHECK_THROWS_AS((void)trainer.capture(CapturedStep::OneResult()), InvalidArgument);
  Engine other({.workers = 1});
  const EngineScope scope(other);
  CHECK_THROWS_WITH_AS((void)step(batch_of_16(0)), doctest::Contains("another engine"), InvalidArgument);
}

TEST_CASE("captured step: a learning rate that is no number is refused before anything runs") {
  Sequential net = perceptron();
  Trainer trainer(net.parameters(), {.schedule = [](std::int64_t step) { return step == 4 ? -1.0 : 0.1; }});
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray loss = classes_loss(net, batch);
    backward(loss);
    trainer.step();
    return loss;
  });
  for (int i = 0; i < 4; ++i) (void)step(batch_of_16(i));
  CHECK_THROWS_WITH_AS((void)step(batch_of_16(4)), doctest::Contains("lr must be finite and not negative"),
                       InvalidArgument);
  CHECK(trainer.steps() == 4);
}

TEST_CASE("captured step: allreduce sums the gradients of all ranks in each launch") {
  const auto job = [](bool captured) {
    const auto ranks = Communicator::create_local(2);
    std::vector<Run> runs(2);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const EngineScope scope(ranks[rank]->engine());
        manual_seed(rank);
        Generator initial(1);
        // a weight that is reduced alone, and others in a bucket
        Sequential net{Dense(6, 300, {.relu = true}, initial), Dropout(0.2),
                       Dense(300, 300, {.relu = true}, initial), Dense(300, 3, {}, initial)};
        const Setup setup{.options = {.optimizer = "adam",
                                      .schedule = cosine_schedule(0.01, 30),
                                      .store = KVStore::create("allreduce", ranks[rank])},
                          .steps = 12};
        runs[rank] = train(captured, net, setup, classes_loss,
                           [&](int step) { return points(2 * step + static_cast<int>(rank), 16); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    return runs;
  };
  const std::vector<Run> plain = job(false), captured = job(true);
  CHECK(plain == captured);
  CHECK(captured[0].captures == 1);
  CHECK(captured[0].state == captured[1].state);
}

TEST_CASE("captured step: weights that are clipped after the step, and changed before it, stay so") {
  check_equal([](bool captured) {
    Sequential net = perceptron();
    Trainer trainer(net.parameters(), {.optimizer = "adam", .schedule = constant_schedule(0.05)});
    const auto function = [&](const Arrays& batch) {
      net.parameters()[2].value.detach() *= 0.9f;
      const NDArray loss = classes_loss(net, batch);
      backward(loss);
      trainer.step();
      for (const Parameter& one : net.parameters()) {
        NDArray value = one.value.detach();
        value.assign(clip(value, -0.1, 0.1));
      }
      return loss;
    };
    CapturedStep step = trainer.capture(function);
    Run run;
    for (int i = 0; i < 10; ++i) {
      const Arrays batch = batch_of_16(i);
      const bool launches = captured && i != 7;  // a step without a capture goes on from a launch
      run.losses.push_back((launches ? step(batch) : function(batch).detach()).item<float>());
    }
    for (const Parameter& one : net.parameters()) run.state.push_back(one.value.to_vector<float>());
    run.captures = step.captures();
    return run;
  });
}
