// Networks that are moved to a GPU and back while they are trained, and trained on several devices.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "problems.h"

using namespace heddle;

namespace {

using Values = std::vector<std::vector<float>>;

Values values_of(const std::vector<Parameter>& all) {
  Values values;
  for (const Parameter& one : all) values.push_back(one.value.detach().astype(DType::f32).to_vector<float>());
  return values;
}

bool near(const Values& here, const Values& there) {
  bool all = here.size() == there.size();
  for (std::size_t i = 0; all && i < here.size(); ++i)
    for (std::size_t k = 0; k < here[i].size(); ++k)
      all = all && there[i][k] == doctest::Approx(here[i][k]).epsilon(1e-4);
  return all;
}

Sequential small() {
  manual_seed(3);
  return Sequential{Dense(6, 8, {.relu = true}), BatchNorm(8), Dense(8, 3)};
}

NDArray loss_of(Sequential& net) {
  const Device device = net.parameters()[0].value.device();
  const NDArray x = Generator(5).normal({32, 6}).copy_to(device),
                labels = Generator(6).integers({32}, 0, 3).copy_to(device);
  return cross_entropy(net(x), labels);
}

}  // namespace

TEST_CASE("a trainer goes on where its network is moved to") {
  for (const std::string optimizer : {"sgd", "adam", "lamb"}) {
    for (const bool captured : {false, true}) {
      CAPTURE(optimizer);
      CAPTURE(captured);
      std::vector<Values> results;
      for (const bool moves : {false, true}) {
        Sequential net = small();
        const OptimizerParams params =
            optimizer == "sgd" ? OptimizerParams{{"momentum", 0.9}} : OptimizerParams{};
        Trainer trainer(net.parameters(),
                        {.optimizer = optimizer, .params = params, .schedule = constant_schedule(0.01)});
        AverageWeights average(net.parameters(), {.decay = 0.5});
        CapturedStep step = trainer.capture([&](const std::vector<NDArray>&) {
          const NDArray loss = loss_of(net);
          loss.backward();
          trainer.step();
          return loss;
        });
        for (const Device device : {cpu(), gpu(0), cpu(), gpu(0)}) {
          if (moves) net.to(device);
          for (int i = 0; i < 3; ++i) {
            if (captured) {
              step({});
            } else {
              loss_of(net).backward();
              trainer.step();
            }
            average.update();
          }
        }
        results.push_back(values_of(net.state()));
        results.push_back(values_of(average.averages()));
        Values state;
        for (const auto& [name, value] : trainer.state())
          state.push_back(value.astype(DType::f32).to_vector<float>());
        results.push_back(state);
      }
      for (const std::size_t i : {0, 1, 2}) CHECK(near(results[i], results[i + 3]));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("an update refuses a gradient on another device than its weight") {
  const auto optimizer = create_optimizer("adam");
  const NDArray weight = ones({4, 2}, DType::f32, gpu(0)), grad = ones({4, 2});
  const std::string wanted =
      "optimizer adam, weight 0: the weight is on gpu(0), the gradient on cpu(0); copy_to() one of them";
  const std::vector<Key> keys{0, 1};
  CHECK_THROWS_WITH_AS(optimizer->update(0, weight, grad), doctest::Contains(wanted.c_str()),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(optimizer->update_all(keys, std::vector{weight, weight}, std::vector{grad, grad}),
                       doctest::Contains(wanted.c_str()), InvalidArgument);
  const RowSparse rows({4, 2}, array<std::int64_t>({1}), ones({1, 2}), array<std::int64_t>({1}));
  CHECK_THROWS_WITH_AS(optimizer->update(0, weight, rows), doctest::Contains(wanted.c_str()),
                       InvalidArgument);
  CHECK(optimizer->state().empty());
  CHECK(problems() == "");
}

TEST_CASE("row-sparse gradients and counts of rows move with the network") {
  std::vector<Values> results;
  for (const bool moves : {false, true}) {
    manual_seed(1);
    Sequential net{Embedding(20, 4, {.sparse_grad = true}), Dense(4, 2)};
    Trainer trainer(net.parameters(), {.optimizer = "adam", .schedule = constant_schedule(0.1)});
    for (int step = 0; step < 6; ++step) {
      const Device device = net.parameters()[0].value.device();
      const NDArray words = Generator(static_cast<std::uint64_t>(step)).integers({8}, 0, 20).copy_to(device);
      sum(square(net(words))).backward();
      if (moves && step % 2 == 1) net.to(step % 4 == 1 ? gpu(0) : cpu());  // with the gradients
      trainer.step();
    }
    results.push_back(values_of(net.state()));
  }
  CHECK(near(results[0], results[1]));
  CHECK(problems() == "");
}

TEST_CASE("the parts of a network on several devices have one trainer") {
  std::vector<Values> results;
  for (const bool several : {false, true}) {
    Sequential first = small(), second{Dense(3, 3, {}), Dense(3, 3)};
    if (several) first.to(gpu(0)), second.to(gpu(gpu_count() - 1));
    std::vector<Parameter> all = first.parameters();
    for (const Parameter& one : second.parameters()) all.push_back({"second." + one.name, one.value});
    Trainer trainer(all, {.optimizer = "adam", .schedule = constant_schedule(0.01)});
    const Device before = first.parameters()[0].value.device(),
                 behind = second.parameters()[0].value.device();
    const NDArray x = Generator(5).normal({32, 6}).copy_to(before),
                  labels = Generator(6).integers({32}, 0, 3).copy_to(behind);
    for (int i = 0; i < 5; ++i) {
      const NDArray middle = first(x), there = middle.detach().copy_to(behind);
      NDArray leaf = there;
      leaf.set_requires_grad();
      cross_entropy(second(leaf), labels).backward();
      middle.backward(leaf.grad().copy_to(before));
      trainer.step();
    }
    results.push_back(values_of(all));
  }
  CHECK(near(results[0], results[1]));
  CHECK(problems() == "");
}

TEST_CASE("what is moved to a GPU leaves the memory that other libraries were shown to them") {
  Sequential net{Dense(30, 40)};
  const NDArray weight = net.parameters()[0].value.detach();
  const std::vector<float> before = weight.to_vector<float>();
  auto* const shown = to_dlpack(weight);
  net.to(gpu(0));
  std::vector<NDArray> others;
  for (int i = 0; i < 8; ++i) others.push_back(full({weight.size()}, 7));
  for (const NDArray& one : others) one.wait();
  const auto* const data = static_cast<const float*>(shown->tensor.data);
  CHECK(std::vector<float>(data, data + weight.size()) == before);
  shown->deleter(shown);
  CHECK(problems() == "");
}
