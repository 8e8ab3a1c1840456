// Calls of modules: several arrays, hooks, summaries.
#include <atomic>
#include <message_of.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/module.h>
#include <heddle/multiply_adds.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>
#include <heddle/summary.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

using Inputs = std::span<const NDArray>;
using Outputs = std::span<NDArray>;

// Two arrays in, two out.
struct Pair : Module {
  Dense left = child("left", Dense(2, 3)), right = child("right", Dense(2, 3));
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    if (inputs.size() != 2) return Module::forward_all(inputs);
    const NDArray sum = left(inputs[0]) + right(inputs[1]);
    return {sum, sum * 2};
  }
};

// The caller passes a mask, and gets what is no array.
struct Masked : Module {
  Dense inner = child("inner", Dense(2, 2));
  std::pair<NDArray, int> operator()(const NDArray& x, const NDArray& mask) {
    return call({x, mask}, [&] { return std::pair(inner(x) * mask, 3); });
  }
};

}  // namespace

TEST_CASE("run takes and returns several arrays") {
  Pair pair;
  const std::vector<NDArray> results = pair.run({ones({4, 2}), zeros({4, 2})});
  REQUIRE(results.size() == 2);
  CHECK(results[0].shape() == Shape{4, 3});
  CHECK(results[1].to_vector<float>() == (results[0] * 2).to_vector<float>());
  Sequential net{Dense(2, 3), Relu()};
  const NDArray x = ones({1, 2});
  CHECK(net.run({x}).at(0).to_vector<float>() == net(x).to_vector<float>());
  CHECK(message_of<InvalidArgument>([&] {
          net.run({x, x});
        }) == "Sequential{\n  Dense(2, 3)\n  Relu\n}: 2 arguments; want one array");
  CHECK(message_of<InvalidArgument>([&] { Relu().run({x, x}); }) == "Relu: 2 arguments; want one array");
  CHECK_THROWS_AS(net.run(std::vector<NDArray>{}), InvalidArgument);
}

TEST_CASE("hooks see each call of their module, in their order, until they are removed") {
  Sequential net{Dense(2, 3), Relu()};
  std::string seen;
  HookHandle before = net[0].before_call([&](const Module& module, Inputs inputs, Outputs outputs) {
    CHECK(module.to_string() == "Dense(2, 3)");
    CHECK(inputs.size() == 1);
    CHECK(outputs.empty());
    seen += "b";
  });
  HookHandle first = net[0].after_call([&](const Module&, Inputs inputs, Outputs outputs) {
    CHECK(inputs[0].shape() == Shape{5, 2});
    CHECK(outputs[0].shape() == Shape{5, 3});
    seen += "1";
  });
  const HookHandle second = net[0].after_call([&](const Module&, Inputs, Outputs) { seen += "2"; });
  net(ones({5, 2}));
  CHECK(seen == "b12");
  first.remove();
  first.remove();
  net(ones({5, 2}));
  CHECK(seen == "b12b2");
  before.remove();
  HookHandle().remove();
  net.run({ones({5, 2})});
  CHECK(seen == "b12b22");
}

TEST_CASE("a hook may replace results, use arrays of its own, and remove itself") {
  Sequential net{Relu(), Relu()};
  const NDArray total = zeros({2});
  NDArray gain = full({2}, 3.0F);
  set_requires_grad(gain);
  HookHandle handle;
  handle = net[0].after_call([&](const Module&, Inputs, Outputs outputs) {
    total += outputs[0].detach();  // an array that is not the module's
    outputs[0] = outputs[0] * gain;
    handle.remove();
  });
  const NDArray y = net(ones({2}));
  CHECK(y.to_vector<float>() == std::vector<float>{3, 3});
  CHECK(total.to_vector<float>() == std::vector<float>{1, 1});
  backward(sum(y));
  CHECK(grad(gain).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(net(ones({2})).to_vector<float>() == std::vector<float>{1, 1});

  Masked masked;
  int calls = 0;
  masked.after_call([&](const Module&, Inputs inputs, Outputs outputs) {
    CHECK(inputs.size() == 2);
    CHECK(outputs.empty());
    ++calls;
  });
  CHECK(masked(ones({1, 2}), ones({1, 2})).second == 3);
  CHECK(calls == 1);
}

TEST_CASE("an exception of a hook is the call's, and an empty hook is refused") {
  Relu relu;
  CHECK(message_of<InvalidArgument>([&] { relu.before_call(nullptr); }) ==
        "Relu: before_call: the hook is empty");
  HookHandle handle =
      relu.before_call([](const Module&, Inputs, Outputs) { throw InvalidArgument("not today"); });
  CHECK(message_of<InvalidArgument>([&] { relu(ones({1})); }) == "not today");
  handle.remove();
  CHECK(relu(ones({1})).item<float>() == 1);
  {
    Tanh gone;
    handle = gone.after_call([](const Module&, Inputs, Outputs) {});
  }
  handle.remove();
}

TEST_CASE("hooks are added and removed, and summaries made, while other threads call the module") {
  Sequential net{Dense(4, 4), Relu(), Dense(4, 4)};
  const NDArray x = ones({2, 4});
  net(x);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop) net(x);
    });
  for (int i = 0; i < 200; ++i) {
    HookHandle handle = net[2].after_call([](const Module&, Inputs, Outputs) {});
    CHECK(summarize(net, {x}).rows[0].calls == 1);
    handle.remove();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a summary goes on after a call inside that threw") {
  struct Careful : Module {
    Dense risky = child("risky", Dense(3, 3)), safe = child("safe", Dense(2, 2));
    NDArray forward(const NDArray& x) override {
      try {
        risky(x);
      } catch (const InvalidArgument&) {
      }
      return safe(x);
    }
  } careful;
  const ModuleSummary summary = summarize(careful, {ones({1, 2})});
  REQUIRE(summary.rows.size() == 3);
  CHECK(summary.rows[1].calls == 0);
  CHECK(summary.rows[2].calls == 1);
  CHECK(summary.rows[0].multiply_adds == 4);
}

TEST_CASE("multiply-adds of what a thread pushes") {
  const NDArray a = ones({3, 4}), b = ones({4, 5});
  MultiplyAdds outer;
  matmul(a, b);
  CHECK(outer.count() == 60);
  {
    const MultiplyAdds inner;
    linear(a, ones({2, 4}), {});
    CHECK(inner.count() == 24);
    CHECK(outer.count() == 60);
  }
  CHECK(outer.count() == 84);
  matmul(ones({2, 3, 4}), b);
  CHECK(outer.count() == 84 + 120);
  a + a;
  CHECK(outer.count() == 204);
  conv2d(ones({2, 4, 5, 5}), ones({6, 2, 3, 3}), {}, {.groups = 2});
  CHECK(outer.count() == 204 + 2 * 6 * 2 * 9 * 9);
}

TEST_CASE("a summary has shapes, parameters, multiply-adds and memory of each module") {
  Sequential inner{Dense(8, 3), Relu()};
  inner[0].freeze();
  Sequential net{Dense(kInferred, 8), BatchNorm(8), Dropout(0.5), inner};
  net[1].train(false);
  const ModuleSummary summary = summarize(net, {ones({4, 6})});
  CHECK(net.training());
  CHECK_FALSE(net[1].training());
  REQUIRE(summary.rows.size() == 7);
  const ModuleRow &all = summary.rows[0], &dense = summary.rows[1], &norm = summary.rows[2],
                  &nested = summary.rows[4];
  CHECK(dense.path == "0");
  CHECK(dense.text == "Dense(6, 8)");
  CHECK(dense.outputs == std::vector<Shape>{{4, 8}});
  CHECK(dense.parameters == 56);
  CHECK(dense.multiply_adds == 4 * 6 * 8);
  CHECK(dense.output_bytes == 4 * 8 * 4);
  CHECK(norm.parameters == 16);
  CHECK(norm.state_bytes == 32 * 4);
  CHECK(nested.path == "3");
  CHECK(nested.text == "Sequential");
  CHECK(nested.trained == 0);
  CHECK(summary.rows[5].path == "3.0");
  CHECK(all.parameters == 56 + 16 + 27);
  CHECK(all.trained == 56 + 16);
  CHECK(all.multiply_adds == 4 * 6 * 8 + 4 * 8 * 3);
  CHECK(all.output_bytes == 3 * 128 + 2 * 48);
  CHECK(summary.to_string() ==
        "module              output  parameters  multiply-adds  outputs\n"
        "Sequential          (4, 3)          99            288    480 B\n"
        "  0: Dense(6, 8)    (4, 8)          56            192    128 B\n"
        "  1: BatchNorm(8)   (4, 8)          16              0    128 B\n"
        "  2: Dropout(0.5)   (4, 8)           0              0    128 B\n"
        "  3: Sequential     (4, 3)          27             96     96 B\n"
        "    0: Dense(8, 3)  (4, 3)          27             96     48 B\n"
        "    1: Relu         (4, 3)           0              0     48 B\n"
        "99 parameters, 72 of them trained; 460 B of parameters and buffers, 480 B of outputs, "
        "288 multiply-adds a call\n");
  // Hooks are gone: nothing else is counted.
  net(ones({1, 6}));
}

TEST_CASE("a module that is there twice is counted once, and one that is not called is named") {
  struct Tied : Module {
    Dense layer = child("layer", Dense(2, 2)), again = child("again", layer),
          idle = child("idle", Dense(1, 1));
    NDArray forward(const NDArray& x) override { return again(layer(x)); }
  } tied;
  const ModuleSummary summary = summarize(tied, {ones({1, 2})});
  REQUIRE(summary.rows.size() == 3);
  CHECK(summary.rows[1].calls == 2);
  CHECK(summary.rows[0].parameters == 6 + 2);
  CHECK(summary.rows[0].multiply_adds == 8);
  CHECK(summary.rows[2].calls == 0);
  CHECK(summary.to_string().find("not called") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] {
          summarize(tied, {ones({1, 3})});
        }).find("Dense(2, 2)") != std::string::npos);
  CHECK(tied.training());
}
