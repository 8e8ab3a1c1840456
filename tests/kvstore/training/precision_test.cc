// Mixed precision training: bf16 with f32 weights, and f16 with a loss scaler.
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/heddle.h>

#include "allreduce_job.h"
#include "files.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = CapturedStep::Arrays;

struct Data {
  NDArray images, labels;
};

// Pictures of ten patterns in noise.
Data pictures(std::int64_t count, std::uint64_t seed) {
  Generator patterns(1), random(seed);
  const NDArray shapes = patterns.normal({10, 1, 12, 12});
  const NDArray labels = random.integers({count}, 0, 10);
  return {take(shapes, labels) + random.normal({count, 1, 12, 12}) * 1.5, labels};
}

Sequential network(std::uint64_t seed = 5) {
  Generator generator(seed);
  return Sequential{Conv2d(1, 16, 3, {.padding = 1}, generator),
                    BatchNorm(16),
                    Relu(),
                    MaxPool2d(2),
                    Conv2d(16, 32, 3, {.padding = 1, .relu = true}, generator),
                    MaxPool2d(2),
                    Flatten(),
                    Dense(288, 64, {.relu = true}, generator),
                    Dense(64, 10, {}, generator)};
}

std::vector<float> state_of(const Module& net) {
  std::vector<float> all;
  for (const Parameter& one : net.state()) {
    const std::vector<float> values = one.value.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

struct Trained {
  std::vector<float> losses, state;
  double accuracy = 0;
};

Trained train(std::optional<DType> dtype, bool captured, int steps, std::optional<LossScaler> scaler = {}) {
  Sequential net = network();
  net.autocast(dtype);
  const Data data = pictures(2048, 2);
  Trainer trainer(net.parameters(), {.optimizer = "adam", .params = {{"lr", 0.002}}, .scaler = scaler});
  const auto function = [&](const Arrays& batch) {
    const NDArray loss = cross_entropy(net(batch[0]), batch[1]);
    CHECK(loss.dtype() == DType::f32);
    backward(scaler ? scaler->scale(loss) : loss);
    trainer.step();
    return loss.detach();
  };
  CapturedStep step = trainer.capture(CapturedStep::OneResult(function));
  std::vector<NDArray> losses;
  for (int i = 0; i < steps; ++i) {
    const Slice rows{i % 32 * 64, i % 32 * 64 + 64};
    const Arrays batch{data.images.slice(0, rows), data.labels.slice(0, rows)};
    losses.push_back(captured ? step(batch) : function(batch));
  }
  if (captured && steps > 2) CHECK(step.captures() == 1);
  Trained result;
  for (const NDArray& loss : losses) result.losses.push_back(loss.item<float>());
  result.state = state_of(net);
  for (const Parameter& one : net.parameters()) CHECK(one.value.dtype() == DType::f32);
  const Data test = pictures(2000, 9);
  const NoGrad no_grad;
  net.train(false);
  result.accuracy = static_cast<double>(
      mean(cast(equal(argmax(net(test.images), 1), test.labels), DType::f32)).item<float>());
  return result;
}

Parameter one_weight(std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  NDArray weight = array<double>(values, {size}).astype(DType::f32);
  set_requires_grad(weight);
  return {"weight", weight};
}

// A step whose gradient is `factor` for each element.
void step_with(Trainer& trainer, LossScaler& scaler, double factor) {
  backward(scaler.scale(sum(trainer.parameters()[0].value * factor)));
  trainer.step();
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("a network trained in bf16 and in f16 is as good as one in f32") {
  const Trained f32 = train({}, false, 160), bf16 = train(DType::bf16, false, 160),
                f16 = train(DType::f16, false, 160, LossScaler());
  CHECK(f32.accuracy > 0.93);
  CHECK(bf16.accuracy > f32.accuracy - 0.003);
  CHECK(f16.accuracy > f32.accuracy - 0.003);
  CHECK(bf16.losses != f32.losses);  // it has computed something else
}

TEST_CASE("captured steps in bf16, and in f16 with a scaler, are the eager ones bit for bit") {
  const Trained eager = train(DType::bf16, false, 12), captured = train(DType::bf16, true, 12);
  CHECK(eager.losses == captured.losses);
  CHECK(eager.state == captured.state);
  const LossScalerOptions options{.scale = 1e9, .interval = 4};  // overflows at first
  LossScaler a(options), b(options);
  const Trained one = train(DType::f16, false, 24, a), other = train(DType::f16, true, 24, b);
  CHECK(one.losses == other.losses);
  CHECK(one.state == other.state);
  CHECK(a.current().item<float>() == b.current().item<float>());
  CHECK(a.skipped().item<std::int64_t>() == b.skipped().item<std::int64_t>());
  CHECK(a.skipped().item<std::int64_t>() > 0);
}

TEST_CASE("a captured step notices another autocast of its net, and one around its call") {
  Sequential net{Dense(8, 8)};
  Trainer trainer(net.parameters());
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    const NDArray y = net(batch[0]);
    backward(sum(cast(y, DType::f32)));
    trainer.step();
    return y.detach();
  });
  const Arrays batch{ones({4, 8})};
  for (int i = 0; i < 3; ++i) CHECK(step(batch).dtype() == DType::f32);
  CHECK(step.captures() == 1);
  net.autocast(DType::bf16);
  for (int i = 0; i < 3; ++i) step(batch);
  CHECK(step.captures() == 2);
  net.autocast({});
  {
    const Autocast autocast(DType::bf16);
    for (int i = 0; i < 3; ++i) CHECK(step(batch).dtype() == DType::bf16);
  }
  CHECK(step.captures() == 3);
  step(batch);
  CHECK(step.captures() == 3);
}

TEST_CASE("a module with autocast returns f32, and modules inside may opt out") {
  Sequential net{Dense(4, 4), Dense(4, 4)};
  DType seen = DType::f32, inside = DType::f32;
  net[0].after_call([&](const Module&, std::span<const NDArray>, std::span<NDArray> outputs) {
    seen = outputs[0].dtype();
  });
  net[1].after_call([&](const Module&, std::span<const NDArray>, std::span<NDArray> outputs) {
    inside = outputs[0].dtype();
  });
  CHECK(!net.autocast());
  net.autocast(DType::bf16);
  CHECK(net.autocast() == DType::bf16);
  CHECK(net(ones({2, 4})).dtype() == DType::f32);
  CHECK(seen == DType::bf16);
  CHECK(inside == DType::bf16);
  net[1].autocast(DType::f32);
  net(ones({2, 4}));
  CHECK(inside == DType::f32);
  CHECK(!Autocast::active());
  CHECK_THROWS_WITH_AS(net.autocast(DType::i32),
                       "Sequential: autocast: dtype is i32; want bf16, f16, f32 or none", InvalidArgument);
  const Autocast around(DType::bf16);
  CHECK(net[0](ones({2, 4})).dtype() == DType::bf16);
}

TEST_CASE("a step with inf or NaN changes nothing, and the scale follows") {
  for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    LossScaler scaler({.scale = 8, .growth = 4, .backoff = 0.5, .interval = 2});
    Trainer trainer({one_weight({1, 2, 3})}, {.optimizer = "adam", .scaler = scaler});
    step_with(trainer, scaler, 1);
    const auto values = [&] { return trainer.parameters()[0].value.to_vector<float>(); };
    const auto before = values();
    CHECK(before[0] == doctest::Approx(0.999));
    const auto optimizer = [&] {
      std::vector<std::vector<double>> all;
      for (const auto& [name, array] : trainer.state())
        if (name.starts_with("state.")) all.push_back(array.astype(DType::f64).to_vector<double>());
      return all;
    };
    const auto state = optimizer();
    step_with(trainer, scaler, bad);
    CHECK(values() == before);
    CHECK(optimizer() == state);
    CHECK(scaler.current().item<float>() == 4);
    CHECK(scaler.skipped().item<std::int64_t>() == 1);
    step_with(trainer, scaler, 1);
    CHECK(values() != before);
    CHECK(scaler.current().item<float>() == 4);
    step_with(trainer, scaler, 1);
    CHECK(scaler.current().item<float>() == 16);
    CHECK(trainer.steps() == 4);
  }
}

TEST_CASE("a scaler's steps equal those without one") {
  LossScaler scaler;
  Trainer with({one_weight({1, -2, 0.5})}, {.params = {{"momentum", 0.9}}, .scaler = scaler}),
      without({one_weight({1, -2, 0.5})}, {.params = {{"momentum", 0.9}}});
  for (int i = 0; i < 5; ++i) {
    for (int part = 0; part < 3; ++part) {  // gradients that accumulate
      backward(scaler.scale(sum(square(with.parameters()[0].value))));
      backward(sum(square(without.parameters()[0].value)));
    }
    if (i % 2 == 0) {
      scaler.unscale(with.parameters());
      clip_grad_norm(with.parameters(), 1.0);
      clip_grad_norm(without.parameters(), 1.0);
    }
    with.step(0.5);
    without.step(0.5);
  }
  CHECK(with.parameters()[0].value.to_vector<float>() == without.parameters()[0].value.to_vector<float>());
}

TEST_CASE("a scaler unscales row-sparse gradients, and skips their updates") {
  LossScaler scaler({.scale = 4});
  Embedding words(4, 2, {.sparse_grad = true});
  Trainer trainer(words.parameters(), {.params = {{"lr", 1}}, .scaler = scaler});
  const auto before = trainer.parameters()[0].value.to_vector<float>();
  const auto step = [&](double factor) {
    backward(scaler.scale(sum(words(array<std::int64_t>({1, 3}))) * factor));
    trainer.step();
    return trainer.parameters()[0].value.to_vector<float>();
  };
  CHECK(step(kInfinity) == before);
  const auto after = step(1);
  CHECK(after[0] == before[0]);
  CHECK(after[2] == doctest::Approx(before[2] - 1));
}

TEST_CASE("all ranks skip a step together") {
  on_ranks(2, [](KVStore& given) {
    const std::shared_ptr<KVStore> store(&given, [](KVStore*) {});
    LossScaler scaler({.scale = 16});
    Trainer trainer({one_weight({1, 2, 3})}, {.params = {{"lr", 1}}, .store = store, .scaler = scaler});
    step_with(trainer, scaler, store->rank() == 1 ? kInfinity : 1);
    CHECK(trainer.parameters()[0].value.to_vector<float>() == std::vector<float>{1, 2, 3});
    CHECK(scaler.current().item<float>() == 8);
    step_with(trainer, scaler, 0.5);
    CHECK(trainer.parameters()[0].value.to_vector<float>() == std::vector<float>{0, 1, 2});
    CHECK(scaler.skipped().item<std::int64_t>() == 1);
  });
}

TEST_CASE("a checkpoint holds the scaler, and training resumes bit for bit") {
  const TemporaryFile file;
  const std::string& path = file.path;
  const LossScalerOptions options{.scale = 1e6, .interval = 3};
  const auto make = [&](LossScaler& scaler) {
    return Trainer({one_weight({1, 2, 3})}, {.optimizer = "adam", .scaler = scaler});
  };
  LossScaler scaler(options);
  Trainer trainer = make(scaler);
  for (int i = 0; i < 8; ++i) step_with(trainer, scaler, i == 3 ? kInfinity : 1);
  Checkpoint saved{.parameters = trainer.parameters(), .trainer = &trainer};
  save_checkpoint(path, saved);
  for (int i = 0; i < 6; ++i) step_with(trainer, scaler, i == 3 ? kInfinity : 1);

  LossScaler other;
  Trainer again({one_weight({0, 0, 0})}, {.optimizer = "adam", .scaler = other});
  Checkpoint loaded{.parameters = again.parameters(), .trainer = &again};
  load_checkpoint(path, loaded);
  CHECK(other.skipped().item<std::int64_t>() == 1);
  // The options are the program's, the state the checkpoint's.
  LossScaler same(options);
  Trainer third({one_weight({0, 0, 0})}, {.optimizer = "adam", .scaler = same});
  Checkpoint resumed{.parameters = third.parameters(), .trainer = &third};
  load_checkpoint(path, resumed);
  for (int i = 0; i < 6; ++i) step_with(third, same, i == 3 ? kInfinity : 1);
  CHECK(third.parameters()[0].value.to_vector<float>() == trainer.parameters()[0].value.to_vector<float>());
  CHECK(same.current().item<float>() == scaler.current().item<float>());
  CHECK(same.skipped().item<std::int64_t>() == 2);
}

TEST_CASE("a scaler's state, errors and messages") {
  LossScaler scaler({.scale = 32});
  Trainer trainer({one_weight({1})}, {.scaler = scaler});
  auto state = trainer.state();
  CHECK(state.at("scaler.scale").item<float>() == 32);
  state["scaler.scale"] = full({}, -1, DType::f32);
  CHECK_THROWS_WITH_AS(trainer.set_state(state), "LossScaler::set_state: 'scale' is -1", InvalidArgument);
  state["scaler.scale"] = full({}, 2, DType::f64);
  CHECK_THROWS_WITH_AS(trainer.set_state(state), "LossScaler::set_state: 'scale' is f64 (); want one f32",
                       InvalidArgument);
  state.erase("scaler.scale");
  CHECK_THROWS_WITH_AS(trainer.set_state(state), "LossScaler::set_state: 'scale' is missing",
                       InvalidArgument);
  CHECK(scaler.current().item<float>() == 32);

  CHECK_THROWS_WITH_AS(LossScaler({.scale = 0}),
                       "LossScaler: scale is 0; want a positive normal number of f32", InvalidArgument);
  CHECK_THROWS_WITH_AS(LossScaler({.scale = 1e-40}),
                       "LossScaler: scale is 1e-40; want a positive normal number of f32", InvalidArgument);
  auto small = scaler.state();
  small["scale"] = full({}, 1e-40, DType::f32);
  CHECK_THROWS_AS(scaler.set_state(small), InvalidArgument);
  CHECK_THROWS_WITH_AS(LossScaler({.growth = 0.5}), "LossScaler: growth is 0.5; want 1 or more",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(LossScaler({.backoff = 1}),
                       "LossScaler: backoff is 1; want more than 0 and less than 1", InvalidArgument);
  CHECK_THROWS_WITH_AS(LossScaler({.interval = 0}), "LossScaler: interval is 0; want 1 or more",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(scaler.scale(ones({1}, DType::i32)),
                       "LossScaler::scale: the loss is i32; want a floating dtype", InvalidArgument);
  backward(scaler.scale(sum(trainer.parameters()[0].value)));
  scaler.unscale(trainer.parameters());
  CHECK_THROWS_WITH_AS(scaler.unscale(trainer.parameters()), doctest::Contains("unscaled already"), Error);
  trainer.step();

  // A batch that fails: the step changes nothing, and training goes on.
  const NDArray bad = take(ones({2}), array<std::int64_t>({7}));
  backward(scaler.scale(sum(trainer.parameters()[0].value * bad)));
  trainer.step();
  CHECK_THROWS(trainer.parameters()[0].value.wait());
  trainer.clear_errors();
  const float before = trainer.parameters()[0].value.item<float>();
  step_with(trainer, scaler, 1);
  CHECK(trainer.parameters()[0].value.item<float>() < before);
  CHECK(scaler.current().item<float>() == 32);
  CHECK(scaler.skipped().item<std::int64_t>() == 0);
}

TEST_CASE(
    "a scaler refuses losses between unscale() and the step, and steps that cannot be made unscale nothing") {
  LossScaler scaler({.scale = 1024});
  double lr = 1;
  Trainer trainer({one_weight({8})}, {.schedule = [&](std::int64_t) { return lr; }, .scaler = scaler});
  const NDArray weight = trainer.parameters()[0].value;
  step_with(trainer, scaler, 1);
  CHECK(weight.item<float>() == 7);
  lr = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(step_with(trainer, scaler, 1), doctest::Contains("lr must be finite"),
                       InvalidArgument);
  lr = 1;
  CHECK_THROWS_WITH_AS(trainer.step(kInfinity), doctest::Contains("grad_scale must be finite"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(trainer.step(ones({2})), doctest::Contains("want one element"), InvalidArgument);
  CHECK(grad(weight).item<float>() == 1024);
  trainer.step();
  CHECK(weight.item<float>() == 6);
  backward(scaler.scale(sum(weight)));
  scaler.unscale(trainer.parameters());
  CHECK_THROWS_WITH_AS(scaler.scale(sum(weight)), doctest::Contains("step() or clear_errors() first"), Error);
  trainer.clear_errors();
  step_with(trainer, scaler, 1);
  CHECK(weight.item<float>() == 5);
}

TEST_CASE("a scaler is for one trainer") {
  LossScaler scaler;
  {
    Trainer trainer({one_weight({1})}, {.scaler = scaler});
    CHECK_THROWS_WITH_AS(Trainer({one_weight({1})}, {.scaler = scaler}),
                         doctest::Contains("the loss scaler is that of another trainer"), InvalidArgument);
    step_with(trainer, scaler, kInfinity);
  }
  Trainer next({one_weight({1})}, {.params = {{"lr", 1}}, .scaler = scaler});
  step_with(next, scaler, 1);
  CHECK(next.parameters()[0].value.item<float>() == 0);
  next.clear_errors();
  CHECK(next.steps() == 1);
}

TEST_CASE("clear_errors() counts the steps that the scaler has skipped, and not those that failed") {
  LossScaler scaler;
  Trainer trainer({one_weight({1})}, {.optimizer = "adam", .scaler = scaler});
  for (int i = 0; i < 6; ++i) step_with(trainer, scaler, i == 1 || i == 2 ? kInfinity : 1);
  trainer.clear_errors();
  CHECK(trainer.steps() == 6);
  backward(scaler.scale(sum(trainer.parameters()[0].value * take(ones({2}), array<std::int64_t>({7})))));
  trainer.step();
  CHECK_THROWS(trainer.parameters()[0].value.wait());
  trainer.clear_errors();
  CHECK(trainer.steps() == 6);
  trainer.set_state(trainer.state());
  step_with(trainer, scaler, kInfinity);
  trainer.clear_errors();
  CHECK(trainer.steps() == 7);
}

TEST_CASE("a captured step notices an autocast to f32 around its call, in which dtypes mix") {
  const NDArray x = ones({2, 4}).astype(DType::bf16);
  Trainer trainer({one_weight({1, 2, 3, 4})});
  const NDArray weight = trainer.parameters()[0].value;
  CapturedStep step = trainer.capture([&](const Arrays& batch) {
    backward(sum(weight * 1.0f));
    trainer.step();
    return batch[0] * 1.0f;
  });
  for (int i = 0; i < 2; ++i) step({x});
  const Autocast around(DType::f32);
  for (int i = 0; i < 2; ++i) step({x});
  CHECK(step.captures() == 2);
}
