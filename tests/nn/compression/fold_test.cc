// Batch norms that become part of the layers before them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/fold_batch_norms.h>
#include <heddle/layers.h>
#include <heddle/model.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>

#include "files.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

// Gives all arrays values as after a training, and calls the module in inference.
void as_trained(Module& net, Generator& generator) {
  for (const Parameter& one : net.state()) {
    const bool positive = one.name.find("running_var") != std::string::npos;
    one.value.detach().assign(positive ? generator.uniform(one.value.shape(), 0.3, 3)
                                       : generator.normal(one.value.shape(), 0, 0.5));
  }
  net.train(false);
}

// The largest difference, relative to the largest number.
double distance(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  const NDArray x = a.detach().astype(DType::f64), y = b.detach().astype(DType::f64);
  return max(abs(x - y)).item<double>() / max(abs(y)).item<double>();
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& one : parameters) names.push_back(one.name);
  return names;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("fold_batch_norms: the results in inference stay, and the norms are gone") {
  Generator generator(3);
  Sequential net{Conv2d(3, 6, 3, {.padding = 1, .bias = false}, generator),
                 BatchNorm(6),
                 Relu(),
                 Sequential(ConvTranspose2d(6, 4, 2, {.stride = 2, .groups = 2}, generator), Identity()),
                 BatchNorm(4, {.weight = false}),
                 Conv2d(4, 8, 3, {.groups = 4}, generator),
                 BatchNorm(8, {.epsilon = 0.1, .bias = false}),
                 GlobalAvgPool(),
                 Flatten(),
                 Dense(8, 5, {}, generator),
                 BatchNorm(5)};
  as_trained(net, generator);
  const NDArray x = generator.normal({4, 3, 9, 8}, 0, 1), before = net(x);
  const FoldReport report = fold_batch_norms(net);
  CHECK(report.to_string() ==
        "'1' became part of '0'\n'4' became part of '3.0'\n'6' became part of '5'\n"
        "'10' became part of '9'\n");
  CHECK(report.kept.empty());
  CHECK(distance(net(x), before) < 1e-5);
  CHECK(names_of(net.state()) == std::vector<std::string>{"0.weight", "0.bias", "3.0.weight", "3.0.bias",
                                                          "5.weight", "5.bias", "9.weight", "9.bias"});
  CHECK(net[0].to_string() == "Conv2d(3, 6, 3, padding 1)");
  CHECK(net[1].to_string() == "Identity");
  CHECK_FALSE(net.training());
  CHECK_FALSE(net[0].training());
  CHECK(fold_batch_norms(net).to_string() == "there are no batch norms\n");

  const test::TemporaryDirectory folder;
  save_model(folder.file("net"), net);
  const std::shared_ptr<Module> loaded = load_model(folder.file("net"));
  loaded->train(false);
  CHECK((*loaded)(x).to_vector<float>() == net(x).to_vector<float>());
}

TEST_CASE("fold_batch_norms: convolutions along one and three axes, transposed ones too") {
  Generator generator(4);
  Sequential lines{Conv1d(2, 4, 3, {}, generator), BatchNorm(4),
                   ConvTranspose1d(4, 6, 3, {.bias = false}, generator), BatchNorm(6)};
  Sequential volumes{Conv3d(2, 4, 2, {}, generator), BatchNorm(4),
                     ConvTranspose3d(4, 2, 2, {.groups = 2}, generator), BatchNorm(2)};
  for (const auto& [net, x] : {std::pair(&lines, generator.normal({2, 2, 7}, 0, 1)),
                               std::pair(&volumes, generator.normal({2, 2, 4, 5, 4}, 0, 1))}) {
    as_trained(*net, generator);
    const NDArray before = (*net)(x);
    CHECK(fold_batch_norms(*net).folded.size() == 2);
    CHECK(distance((*net)(x), before) < 1e-5);
  }
}

TEST_CASE("fold_batch_norms: a Model has fewer steps, and what several steps read stays") {
  Generator generator(5);
  const Symbol x = input("x", {kInferred, 2, 6, 6});
  const Symbol a = connect(Conv2d(2, 4, 3, {.padding = 1}, generator), x), b = connect(BatchNorm(4), a),
               c = connect("relu", {b}), d = connect(Conv2d(4, 4, 1, {}, generator), c),
               e = connect(BatchNorm(4), d), f = connect("add", {e, d});
  Model model({x}, {f, connect("multiply", {c, array<float>({2}).detach()})});
  as_trained(model, generator);
  const NDArray images = generator.normal({3, 2, 6, 6}, 0, 1);
  const std::vector<NDArray> before = model.run({images});
  const FoldReport report = fold_batch_norms(model);
  CHECK(report.to_string() ==
        "'batch_norm_0' became part of 'conv2d_0'\n"
        "'batch_norm_1' stays: no layer is known whose results it alone takes\n");
  const std::vector<NDArray> after = model.run({images});
  CHECK(distance(after[0], before[0]) < 1e-5);
  CHECK(distance(after[1], before[1]) < 1e-5);
  CHECK_FALSE(holds(model.to_string(), "batch_norm_1"));
  CHECK(holds(model.to_string(), "batch_norm_0"));
  const test::TemporaryDirectory folder;
  save_model(folder.file("model"), model);
  const std::shared_ptr<Module> loaded = load_model(folder.file("model"));
  loaded->train(false);
  CHECK(loaded->run({images})[0].to_vector<float>() == after[0].to_vector<float>());
}

TEST_CASE("fold_batch_norms: modules in other modules, and what cannot be folded") {
  struct Own : Module {
    Dense first = child("first", Dense(4, 3));
    BatchNorm norm = child("norm", BatchNorm(3));
    Sequential rest = child("rest", Sequential(Dense(3, 3), BatchNorm(3)));
    NDArray forward(const NDArray& x) override { return rest(norm(first(x))); }
  };
  Generator generator(6);
  Own own;
  Sequential net{own, BatchNorm(3), Dense(3, 3, {.relu = true}), BatchNorm(3), Dense(3, 3), BatchNorm(3)};
  as_trained(net, generator);
  net[4].after_call([](const Module&, std::span<const NDArray>, std::span<NDArray>) {});
  const NDArray x = generator.normal({7, 4}, 0, 1), before = net(x);
  const FoldReport report = fold_batch_norms(net);
  CHECK(report.to_string() ==
        "'0.rest.1' became part of '0.rest.0'\n"
        "'0.norm' stays: its order is not known: it is in a class of the program's own\n"
        "'1' stays: '0' before it is no Dense, Conv or ConvTranspose\n"
        "'3' stays: '2' before it ends in a relu\n"
        "'5' stays: it, or '4', has hooks\n");
  CHECK(distance(net(x), before) < 1e-5);
}

TEST_CASE("fold_batch_norms: a module that stands in two places becomes two") {
  Generator generator(7);
  const Dense shared(3, 3, {}, generator);
  Sequential net{shared, BatchNorm(3), shared, BatchNorm(3)};
  as_trained(net, generator);
  const NDArray x = generator.normal({5, 3}, 0, 1), before = net(x);
  CHECK(fold_batch_norms(net).folded.size() == 2);
  CHECK(distance(net(x), before) < 1e-5);

  const Sequential part{Dense(3, 3, {}, generator)};
  Sequential twice{part, BatchNorm(3), part};
  as_trained(twice, generator);
  const NDArray wanted = twice(x);
  CHECK(fold_batch_norms(twice).folded.empty());
  CHECK(distance(twice(x), wanted) == 0);
}

TEST_CASE("fold_batch_norms: what is frozen stays frozen, and the rest can be trained") {
  Sequential net{Dense(3, 3), BatchNorm(3), Dense(3, 2), BatchNorm(2)};
  net[0].freeze();
  net[1].freeze();
  net.train(false);
  fold_batch_norms(net);
  CHECK(names_of(net.parameters()) == std::vector<std::string>{"2.weight", "2.bias"});
  backward(sum(net(ones({2, 3}))));
  CHECK(grad(net.parameters()[0].value).defined());
}

TEST_CASE("fold_batch_norms: a bias is trainable if an array that became part of it was") {
  // Names of what is frozen, and what can be trained afterwards.
  const auto trainable = [](const std::vector<std::string>& frozen, bool bias, bool affine) {
    Sequential net{Dense(3, 3, {.bias = bias}), BatchNorm(3, {.weight = affine, .bias = affine})};
    for (Parameter& one : net.parameters())
      if (std::find(frozen.begin(), frozen.end(), one.name) != frozen.end())
        set_requires_grad(one.value, false);
    net.train(false);
    fold_batch_norms(net);
    return names_of(net.parameters());
  };
  using Names = std::vector<std::string>;
  CHECK(trainable({"0.weight"}, true, true) == Names{"0.bias"});
  CHECK(trainable({"0.weight", "0.bias", "1.weight"}, true, true) == Names{"0.bias"});
  CHECK(trainable({"0.weight", "0.bias", "1.weight", "1.bias"}, true, true).empty());
  CHECK(trainable({"0.bias", "1.weight", "1.bias"}, true, true) == Names{"0.weight"});
  CHECK(trainable({"1.weight", "1.bias"}, false, true) == Names{"0.weight"});
  CHECK(trainable({"0.weight"}, true, false) == Names{"0.bias"});
}

TEST_CASE("fold_batch_norms: a norm alone stays, and the report says so") {
  BatchNorm norm(3);
  norm.train(false);
  const FoldReport report = fold_batch_norms(norm);
  REQUIRE(report.kept.size() == 1);
  CHECK(report.kept[0].norm.empty());
  CHECK(report.kept[0].reason == "it is the whole module; put it into a Sequential");
}

TEST_CASE("fold_batch_norms: training mode and unknown sizes are refused, and nothing changes") {
  Sequential net{Dense(3, 3), BatchNorm(3), Dense(kInferred, 3), BatchNorm(3)};
  CHECK(message_of<InvalidArgument>([&] { fold_batch_norms(net); }) ==
        "fold_batch_norms: '1' is in training mode, in which it normalises by the batch; call "
        "net.train(false)");
  net.train(false);
  CHECK(message_of<InvalidArgument>([&] { fold_batch_norms(net); }) ==
        "fold_batch_norms: '2.weight' has no shape before the first call of its layer; call the module once");
  CHECK(net[1].to_string() == "BatchNorm(3)");
  net(ones({2, 3}));
  CHECK(fold_batch_norms(net).folded.size() == 2);
}
