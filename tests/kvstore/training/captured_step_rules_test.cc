// Captured training steps: what their functions cannot do, what calls return, and whose generators draw.
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

using Arrays = CapturedStep::Arrays;

Sequential small_net() {
  Generator initial(1);
  return Sequential{Dense(4, 8, {.relu = true}, initial), Dropout(0.3), Dense(8, 3, {}, initial)};
}

Arrays batch_of(std::int64_t count) {
  Generator data(2);
  return {data.normal({count, 4}), data.integers({count}, 0, 3)};
}

NDArray loss_of(Sequential& net, const Arrays& batch) { return cross_entropy(net(batch[0]), batch[1]); }

}  // namespace

TEST_CASE("captured step: the function can neither reset nor call its own step") {
  Sequential net = small_net();
  Trainer trainer(net.parameters());
  std::function<void()> inside = [] {};
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray loss = loss_of(net, batch);
    backward(loss);
    trainer.step();
    inside();
    return loss;
  });
  for (int i = 0; i < 2; ++i) {
    inside = [&] { CHECK_THROWS_WITH_AS(step.reset(), doctest::Contains("inside its own function"), Error); };
    (void)step(batch_of(16));
  }
  CHECK(step.captures() == 1);
  inside = [&] { CHECK_THROWS_AS((void)step(batch_of(16)), Error); };
  for (int i = 0; i < 2; ++i) (void)step(batch_of(5));
  CHECK(step.captures() == 2);
  inside = [] { throw InvalidArgument("mine"); };
  CHECK_THROWS_AS((void)step(batch_of(7)), InvalidArgument);
  step.reset();
  CHECK(step.graphs() == 0);
}

TEST_CASE("captured step: a result that is a parameter or the batch is a copy in each call") {
  Sequential net = small_net();
  Trainer trainer(net.parameters());
  CapturedStep step = trainer.capture([&](const Arrays& batch) -> Arrays {
    backward(loss_of(net, batch));
    trainer.step();
    return {net.parameters()[0].value, batch[0]};
  });
  for (int i = 0; i < 3; ++i) {
    const Arrays batch = batch_of(16);
    const Arrays results = step.run(batch);
    CHECK(results[0].storage() != net.parameters()[0].value.storage());
    CHECK(results[1].storage() != batch[0].storage());
    CHECK(results[0].to_vector<float>() == net.parameters()[0].value.to_vector<float>());
  }
}

TEST_CASE("captured step: a group's learning rate that overflows is refused before anything runs") {
  Sequential net = small_net();
  Trainer trainer(net.parameters(), {.schedule = [](std::int64_t step) { return step == 3 ? 1e300 : 1e-10; },
                                     .groups = {{.pattern = "*bias", .lr = 1e10}}});
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray loss = loss_of(net, batch);
    backward(loss);
    trainer.step();
    return loss;
  });
  for (int i = 0; i < 3; ++i) (void)step(batch_of(16));
  CHECK_THROWS_WITH_AS((void)step(batch_of(16)), doctest::Contains("lr must be finite and not negative"),
                       InvalidArgument);
  CHECK(trainer.steps() == 3);
}

TEST_CASE("captured step: another trainer cannot step in the function") {
  Sequential net = small_net(), more = small_net();
  Trainer trainer(net.parameters()), other(more.parameters());
  bool both = true;
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray loss = loss_of(net, batch);
    backward(loss);
    trainer.step();
    if (both) backward(loss_of(more, batch)), other.step();
    return loss;
  });
  (void)step(batch_of(16));
  CHECK_THROWS_WITH_AS((void)step(batch_of(16)), doctest::Contains("step of another trainer"), Error);
  CHECK(trainer.steps() == 1);
  CHECK(other.steps() == 1);
  for (const Parameter& one : more.parameters()) clear_grad(one.value);
  both = false;
  (void)step(batch_of(16));
  CHECK(trainer.steps() == 2);
}

TEST_CASE("random draws in a graph: the default generator is that of the launching thread") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  Graph graph;
  NDArray drawn;
  std::thread([&] {
    const EngineScope same(engine);
    manual_seed(3);
    graph = engine.capture([&] { drawn = default_generator().normal({5}); });
  }).join();
  manual_seed(7);
  graph.launch();
  CHECK(drawn.to_vector<float>() == Generator(3).normal({5}).to_vector<float>());
  Generator same(7);
  for (int launch = 0; launch < 3; ++launch) {
    graph.launch();
    CHECK(drawn.to_vector<float>() == same.normal({5}).to_vector<float>());
  }
}

TEST_CASE("random draws in a graph: each launch goes on in the sequence of the generator") {
  Generator generator(3), same(3);
  NDArray drawn, counts, kept;
  std::unique_ptr<Generator> gone = std::make_unique<Generator>(4);
  const Graph graph = current_engine().capture([&] {
    drawn = generator.normal({5});
    counts = poisson({7}, 3.0, DType::i64, cpu(), generator);
    kept = gone->uniform({3});
    CHECK_THROWS_AS((void)generator.split(2), Error);
  });
  gone.reset();
  const std::vector<float> expected = Generator(4).uniform({3}).to_vector<float>();
  for (int launch = 0; launch < 4; ++launch) {
    graph.launch();
    CHECK(drawn.to_vector<float>() == same.normal({5}).to_vector<float>());
    CHECK(counts.to_vector<std::int64_t>() ==
          poisson({7}, 3.0, DType::i64, cpu(), same).to_vector<std::int64_t>());
    CHECK(kept.to_vector<float>() == expected);
    CHECK(generator.position() == same.position());
    if (launch == 2) generator = same = Generator(11);
  }
}
