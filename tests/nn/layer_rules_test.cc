// What follows from the description of a layer: shapes, sizes that are found at the first call, printing.
#include <algorithm>
#include <map>
#include <memory>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/default_engine.h>
#include <heddle/graph.h>
#include <heddle/layers.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>

#include "layer_samples.h"
#include "layers/shape_rule.h"

using namespace heddle;
using heddle::nn_detail::FindSize;
using heddle::nn_detail::ShapeRule;
using heddle::test::message_of, heddle::test::sample_of;

namespace {

struct Sizes {
  std::map<std::string, OperatorValue, std::less<>> values;
  FindSize find() {
    return [this](std::string_view name) {
      const auto found = values.find(name);
      return found == values.end() ? nullptr : &found->second;
    };
  }
};

std::vector<std::string> names_of(const std::vector<Parameter>& all) {
  std::vector<std::string> names;
  for (const Parameter& one : all) names.push_back(one.name);
  return names;
}

// Without those of modules inside.
std::vector<std::string> own_names(const std::vector<Parameter>& all) {
  std::vector<std::string> names = names_of(all);
  std::erase_if(names, [](const std::string& name) { return name.find('.') != std::string::npos; });
  return names;
}

const std::string kNoShape =
    "' has no shape before the first call of its layer; call the module once, or give the layer its sizes";

}  // namespace

TEST_CASE("a rule gives a shape, and says whether a shape follows it") {
  Sizes sizes{{{"in", std::int64_t{6}},
               {"out", std::int64_t{4}},
               {"groups", std::int64_t{2}},
               {"kernel", Dims{3, 5}}}};
  CHECK(ShapeRule("(out, in / groups, kernel...)").shape(sizes.find()) == Shape{4, 3, 3, 5});
  CHECK(ShapeRule("(4 * out, in*groups)").shape(sizes.find()) == Shape{16, 12});
  CHECK(ShapeRule("()").shape(sizes.find()) == Shape{});
  CHECK(message_of<InvalidArgument>([&] { ShapeRule("(in / out)").shape(sizes.find()); }) ==
        "in is 6; want a multiple of out, 4");
  const ShapeRule rows("(batch..., in)");
  CHECK(rows.match({6}, sizes.find()));
  CHECK(rows.match({2, 3, 6}, sizes.find()));
  CHECK_FALSE(rows.match({2, 3, 5}, sizes.find()));
  CHECK_FALSE(rows.match({}, sizes.find()));
  CHECK(rows.to_string(sizes.find()) == "(batch..., 6)");
  const ShapeRule image("(batch, in, height, width)");
  CHECK(image.match({1, 6, 2, 2}, sizes.find()));
  CHECK_FALSE(image.match({1, 6, 2}, sizes.find()));
  CHECK_FALSE(image.match({1, 5, 2, 2}, sizes.find()));
  const ShapeRule open("(batch, size, ...)");
  CHECK(open.match({1, 2}, sizes.find()));
  CHECK(open.match({1, 2, 3}, sizes.find()));
  CHECK_FALSE(open.match({1}, sizes.find()));
  CHECK(open.to_string(sizes.find()) == "(batch, size, ...)");
  CHECK_THROWS_AS(open.shape(sizes.find()), Error);
  CHECK_THROWS_AS(ShapeRule("in, out"), Error);
}

TEST_CASE("a size that is not known gets that of the shape, if the whole shape fits") {
  Sizes sizes{{{"in", OperatorValue()}, {"features", std::int64_t{3}}}};
  const ShapeRule rule("(in, features)");
  CHECK_FALSE(rule.match({5, 4}, sizes.find()));
  CHECK(sizes.values["in"].is_none());
  CHECK(rule.to_string(sizes.find()) == "(in, 3)");
  CHECK_THROWS_AS(rule.shape(sizes.find()), Error);
  CHECK(rule.match({5, 3}, sizes.find()));
  CHECK(rule.shape(sizes.find()) == Shape{5, 3});
  CHECK_FALSE(rule.match({6, 3}, sizes.find()));
}

TEST_CASE("each layer has the parameters and buffers of its description") {
  for (const LayerInfo& layer : layers()) {
    CAPTURE(layer.name);
    const std::shared_ptr<Module> made = sample_of(layer);
    std::vector<std::string> trained, all;
    for (const LayerArray& array : layer.arrays) {
      const bool is_there =
          std::none_of(layer.arguments.begin(), layer.arguments.end(), [&](const ArgumentInfo& one) {
            return one.name == array.condition && !std::get<bool>(*one.default_value);
          });
      if (!is_there) continue;
      all.push_back(array.name);
      if (array.trained) trained.push_back(array.name);
    }
    CHECK(own_names(made->parameters()) == trained);
    CHECK(own_names(made->state()) == all);
    const auto* const base = dynamic_cast<const Layer*>(made.get());
    REQUIRE(base);
    CHECK(&base->info() == &layer);
  }
}

TEST_CASE("a layer prints the arguments that differ from their defaults") {
  CHECK(Dense(3, 2, {.bias = false, .relu = true, .init = Init::xavier}).to_string() ==
        "Dense(3, 2, no bias, relu)");
  CHECK(Conv2d(1, 4, {3, 5}, {.stride = {2, 2}, .padding = {0, 1}}).to_string() ==
        "Conv2d(1, 4, (3, 5), stride 2, padding (0, 1))");
  CHECK(MaxPool2d({2, 2}).to_string() == "MaxPool2d(2)");
  CHECK(LeakyRelu(0.01).to_string() == "LeakyRelu");
  CHECK(LeakyRelu(0.5).to_string() == "LeakyRelu(slope 0.5)");
  CHECK(Dense(kInferred, 2).to_string() == "Dense(None, 2)");
}

TEST_CASE("windows are lists, and channels are split into groups") {
  const Conv2d grouped(4, 6, {3, 5}, {.groups = 2});
  CHECK(grouped.parameters()[0].value.shape() == Shape{6, 2, 3, 5});
  CHECK(message_of<InvalidArgument>([] { Conv2d(3, 6, 3, {.groups = 2}); }) ==
        "Conv2d: in_channels is 3; want a multiple of groups, 2");
  CHECK(message_of<InvalidArgument>([] {
          Conv2d(3, 6, {3, 3, 3});
        }) == "Conv2d: kernel is (3, 3, 3); want 1 or 2 numbers");
  CHECK(message_of<InvalidArgument>([] {
          Conv2d(3, 6, {3, 0});
        }) == "Conv2d: kernel is (3, 0); want 1 or more");
}

TEST_CASE("a dense layer computes along the last axis, whatever is before it") {
  Generator generator(3);
  Dense dense(4, 2, {.relu = true}, generator);
  const NDArray x = generator.normal({2, 3, 4});
  const NDArray y = dense(x);
  CHECK(y.shape() == Shape{2, 3, 2});
  CHECK(y.to_vector<float>() == dense(reshape(x, {6, 4})).to_vector<float>());
  CHECK(dense(generator.normal({4})).shape() == Shape{2});
}

TEST_CASE("a size that is inferred is found at the first call") {
  Generator one(5), two(5);
  Sequential net{Dense(kInferred, 3, {.relu = true}, one), Dense(kInferred, 2, {}, one)};
  CHECK(message_of<InvalidArgument>([&] { net.parameters(); }) == "'0.weight" + kNoShape);
  CHECK(message_of<InvalidArgument>([&] { net.state(); }) == "'0.weight" + kNoShape);
  const Sequential copy = net;
  const NDArray x = Generator(1).normal({5, 4});
  const NDArray y = net(x);
  CHECK(net.to_string() == "Sequential{\n  Dense(4, 3, relu)\n  Dense(3, 2)\n}");
  CHECK(copy.to_string() == net.to_string());
  REQUIRE(net.parameters().size() == 4);
  CHECK(net.parameters()[0].value.shape() == Shape{3, 4});
  backward(sum(y));
  CHECK(grad(net.parameters()[0].value).shape() == Shape{3, 4});
  Sequential again{Dense(kInferred, 3, {.relu = true}, two), Dense(kInferred, 2, {}, two)};
  CHECK(again(x).to_vector<float>() == y.to_vector<float>());
  CHECK(message_of<InvalidArgument>([&] {
          net(ones({5, 3}));
        }).find("Dense(4, 3, relu): the input is f32 (5, 3), wanted is (batch..., 4)") != std::string::npos);
  const auto conv = make_layer("Conv2d", {OperatorValue(), 2, 3});
  CHECK((*conv)(ones({1, 5, 4, 4})).shape() == Shape{1, 2, 2, 2});
  CHECK(conv->to_string() == "Conv2d(5, 2, 3)");
}

TEST_CASE("a refused first call finds nothing, and a frozen layer stays frozen") {
  Conv2d conv(kInferred, 2, 1);
  conv.freeze();
  CHECK_THROWS_AS(conv(ones({2, 3})), InvalidArgument);
  CHECK(conv.to_string() == "Conv2d(None, 2, 1)");
  conv(ones({1, 3, 2, 2}));
  CHECK(conv.parameters().empty());
  CHECK(names_of(conv.state()) == std::vector<std::string>{"weight", "bias"});
  conv.freeze(false);
  CHECK(conv.parameters().size() == 2);
  CHECK(message_of<InvalidArgument>([] { Dense(kInferred, 0); }) ==
        "Dense: out_features is 0; want 1 or more");
  CHECK(message_of<InvalidArgument>([] { Dense(0, 2); }) == "Dense: in_features is 0; want 1 or more");
}

TEST_CASE("a first call that fails changes nothing, and one on another engine makes its weights there") {
  Conv2d grouped(kInferred, 6, 3, {.groups = 2});
  CHECK_THROWS_AS(grouped(ones({1, 3, 4, 4})), InvalidArgument);
  CHECK(grouped(ones({1, 4, 4, 4})).shape() == Shape{1, 6, 2, 2});
  Dense dense(kInferred, 4);
  CHECK(message_of<InvalidArgument>([&] {
          dense(ones({2, 0}));
        }) == "Dense: in_features is 0; want 1 or more");
  CHECK(dense(ones({2, 3})).shape() == Shape{2, 4});
  Engine engine;
  Sequential net{Dense(kInferred, 2), LayerNorm(kInferred)};
  NDArray x;
  {
    const EngineScope scope(engine);
    x = ones({1, 3});
  }
  CHECK(net(x).to_vector<float>().size() == 2);
  CHECK(&net.parameters()[0].value.engine() == &engine);
}

TEST_CASE("layers without random weights draw nothing") {
  const std::uint64_t before = default_generator().position();
  LayerNorm norm(kInferred);
  norm(ones({2, 3}));
  CHECK(default_generator().position() == before);
}

TEST_CASE("threads that make the first call together get one weight") {
  for (int round = 0; round < 20; ++round) {
    Dense dense(kInferred, 2);
    const NDArray x = ones({1, 3});
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> results(4);
    for (auto& result : results) threads.emplace_back([&] { result = dense(x).to_vector<float>(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) CHECK(result == results[0]);
    CHECK(dense.parameters().size() == 2);
  }
}

TEST_CASE("the first call of a layer with an inferred size is made before a capture") {
  Dense dense(kInferred, 2);
  const NDArray x = ones({1, 3});
  std::string why;
  (void)default_engine().capture([&] { why = message_of<InvalidArgument>([&] { dense(x); }); });
  CHECK(why == "Dense(None, 2): its first call finds sizes; make it before a graph is captured");
  CHECK(dense(x).shape() == Shape{1, 2});
}
