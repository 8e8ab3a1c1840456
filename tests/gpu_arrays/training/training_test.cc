// Networks that are trained on a GPU as on the CPU: layers, losses, optimizers, autocast, captured steps, checkpoints.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "problems.h"

using namespace heddle;

namespace {

Sequential made_net() {
  manual_seed(3);
  return Sequential{Conv2d(1, 4, 3, {.padding = {1}, .relu = true}),
                    MaxPool2d(2),
                    BatchNorm(4),
                    Flatten(),
                    Dense(64, 16, {.relu = true}),
                    Dropout(0.2),
                    LayerNorm(16),
                    Dense(16, 5)};
}

struct Run {
  std::vector<double> losses;
  std::vector<NDArray> state;
};

Run trained(Device device, const std::string& optimizer, bool captured) {
  Sequential net = made_net();
  net.to(device);
  Trainer trainer(net.parameters(), {.optimizer = optimizer, .schedule = constant_schedule(0.01)});
  const NDArray x = Generator(5).normal({32, 1, 8, 8}).copy_to(device),
                labels = Generator(6).integers({32}, 0, 5).copy_to(device);
  Run run;
  const auto step = [&](const std::vector<NDArray>& batch) {
    const NDArray loss = cross_entropy(net(batch[0]), batch[1]);
    loss.backward();
    trainer.step();
    return loss;
  };
  CapturedStep capture = trainer.capture(CapturedStep::OneResult(step));
  for (int i = 0; i < 8; ++i) {
    const NDArray loss = captured ? capture({x, labels}) : step({x, labels});
    run.losses.push_back(loss.item<float>());
  }
  for (const Parameter& one : net.state()) run.state.push_back(one.value.detach().copy_to(cpu()));
  return run;
}

}  // namespace

TEST_CASE("a network is trained on a GPU as on the CPU") {
  for (const char* const optimizer : {"sgd", "adam", "lion"}) {
    CAPTURE(std::string(optimizer));
    const Run here = trained(cpu(), optimizer, false), there = trained(gpu(0), optimizer, false);
    for (std::size_t i = 0; i < here.losses.size(); ++i)
      CHECK(there.losses[i] == doctest::Approx(here.losses[i]).epsilon(1e-4));
    CHECK(there.losses.back() < there.losses.front());
  }
  CHECK(problems() == "");
}

TEST_CASE("a captured step on a GPU gives the bits of the step that is called") {
  const Run called = trained(gpu(0), "adam", false);
  const std::uint64_t before = replays();
  const Run captured = trained(gpu(0), "adam", true);
  CHECK((check::enabled() || replays() > before));  // most of the step's work was recorded
  CHECK(captured.losses == called.losses);
  for (std::size_t i = 0; i < called.state.size(); ++i)
    CHECK(all(equal(called.state[i], captured.state[i])).item<bool>());
  CHECK(problems() == "");
}

TEST_CASE("autocast in bf16 on a GPU") {
  const auto loss_on = [](Device device) {
    Sequential net = made_net();
    net.to(device);
    net.autocast(DType::bf16);
    net.train(false);
    const NDArray x = Generator(5).normal({32, 1, 8, 8}).copy_to(device);
    return mean(square(net(x))).item<float>();
  };
  CHECK(loss_on(gpu(0)) == doctest::Approx(loss_on(cpu())).epsilon(0.02));
  CHECK(problems() == "");
}

TEST_CASE("a step's factor that a GPU computes is read when it is there") {
  const Device places[] = {cpu(), cpu_pinned(), gpu(0)};
  std::vector<std::vector<float>> weights;
  for (const Device place : places) {
    Parameter weight{"w", full({8}, 1, DType::f32, gpu(0))};
    weight.value.set_requires_grad();
    Trainer trainer({weight}, {.optimizer = "sgd", .schedule = constant_schedule(1)});
    for (int i = 1; i < 6; ++i) {
      (weight.value * 2).backward(ones({8}, DType::f32, gpu(0)));
      NDArray factor = full({1}, 0.5, DType::f32, gpu(0));
      for (int k = 0; k < i; ++k) factor = factor / 2;
      trainer.step(factor.copy_to(place));
    }
    weights.push_back(weight.value.detach().to_vector<float>());
  }
  CHECK(weights[0][7] == 1 - 2 * (0.25f + 0.125f + 0.0625f + 0.03125f + 0.015625f));
  CHECK(weights[1] == weights[0]);
  CHECK(weights[2] == weights[0]);
  CHECK(problems() == "");
}
