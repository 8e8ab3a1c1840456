#include <cmath>
#include <cstdint>
#include <memory>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/sequential.h>

using namespace heddle;
using heddle::test::message_of;

TEST_CASE("a dense layer is x times weight transposed plus bias") {
  Generator generator(1);
  Dense dense(2, 3, {}, generator);
  std::vector<Parameter> parameters = dense.parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].name == "weight");
  CHECK(parameters[0].value.shape() == Shape{3, 2});
  CHECK(requires_grad(parameters[0].value));
  CHECK(parameters[1].name == "bias");
  parameters[0].value.detach().assign(array<float>({1, 2, 3, 4, 5, -6}, {3, 2}));
  parameters[1].value.detach().assign(array<float>({10, 20, 0}));
  NDArray x = array<float>({1, 1, 0, 2}, {2, 2});
  CHECK(dense(x).to_vector<float>() == std::vector<float>{13, 27, -1, 14, 28, -12});
  CHECK(Dense(2, 3, {.bias = false}, generator).parameters().size() == 1);
}

TEST_CASE("relu as an option is relu as a layer") {
  Generator one(1), two(1);
  Sequential fused{Conv2d(1, 4, 3, {.padding = 1, .relu = true}, one), Flatten(),
                   Dense(64, 5, {.relu = true}, one)};
  Sequential apart{Conv2d(1, 4, 3, {.padding = 1}, two), Relu(), Flatten(), Dense(64, 5, {}, two), Relu()};
  NDArray x = Generator(2).normal({3, 1, 4, 4});
  std::vector<float> a = fused(x).to_vector<float>(), b = apart(x).to_vector<float>();
  REQUIRE(a.size() == 15);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]));
}

TEST_CASE("initial values stay within their limits and depend on the generator alone") {
  Generator generator(9), again(9);
  NDArray he = init_weight({50, 20, 3, 3}, Init::he, generator);
  double limit = std::sqrt(6.0 / (20 * 9)), largest = 0, sum = 0;
  for (float w : he.to_vector<float>()) {
    largest = std::max(largest, std::abs(static_cast<double>(w)));
    sum += w;
  }
  CHECK(largest <= limit * (1 + 1e-6));
  CHECK(largest > limit * 0.99);
  CHECK(std::abs(sum / 9000) < 0.01);
  CHECK(init_weight({50, 20, 3, 3}, Init::he, again).to_vector<float>() == he.to_vector<float>());

  limit = std::sqrt(6.0 / (40 + 60));
  for (float w : init_weight({40, 60}, Init::xavier, generator).to_vector<float>()) {
    CHECK(std::abs(w) <= limit * (1 + 1e-6));
  }
}

TEST_CASE("layers that convolve and pool along one and three axes compute what their operators do") {
  const NDArray line = Generator(1).normal({2, 4, 9}), volume = Generator(2).normal({2, 2, 4, 5, 6});
  Conv1d one(4, 6, 4, {.padding = "same", .groups = 2});
  CHECK(one.to_string() == "Conv1d(4, 6, 4, padding 'same', groups 2)");
  CHECK(one(line).to_vector<float>() ==
        conv1d(line, one.parameters()[0].value, one.parameters()[1].value, {.padding = "same", .groups = 2})
            .to_vector<float>());
  Conv3d three(kInferred, 3, {1, 2, 3}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}, .bias = false});
  const NDArray y = three(volume);
  CHECK(three.to_string() == "Conv3d(2, 3, (1, 2, 3), stride (1, 2, 1), padding (0, 1, 1), no bias)");
  CHECK(three.parameters()[0].value.shape() == Shape{3, 2, 1, 2, 3});
  CHECK(y.to_vector<float>() ==
        conv3d(volume, three.parameters()[0].value, {}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}})
            .to_vector<float>());
  ConvTranspose1d up(4, 2, 3, {.stride = 2, .output_padding = 1, .groups = 2});
  CHECK(up(line).to_vector<float>() == conv_transpose1d(line, up.parameters()[0].value,
                                                        up.parameters()[1].value,
                                                        {.stride = 2, .output_padding = 1, .groups = 2})
                                           .to_vector<float>());
  CHECK(up.parameters()[0].value.shape() == Shape{4, 1, 3});
  CHECK(ConvTranspose3d(2, 3, 2, {.stride = 2})(volume).shape() == Shape{2, 3, 8, 10, 12});
  CHECK(MaxPool1d(2)(line).to_vector<float>() == max_pool1d(line).to_vector<float>());
  CHECK(MaxPool3d({2, 3, 2}, 1, 1, 1, true)(volume).to_vector<float>() ==
        max_pool3d(volume, {.kernel = {2, 3, 2}, .stride = 1, .padding = 1, .ceil_mode = true})
            .to_vector<float>());
  CHECK(AvgPool1d(3, 2, 1, false, true)(line).to_vector<float>() ==
        avg_pool1d(line, {3, 2, 1, false, 1, true}).to_vector<float>());
  CHECK(AvgPool3d(2)(volume).shape() == Shape{2, 2, 2, 2, 3});
  CHECK(AdaptiveMaxPool1d(4)(line).to_vector<float>() == adaptive_max_pool1d(line, 4).to_vector<float>());
  CHECK(AdaptiveAvgPool3d({1, 2, 3})(volume).to_vector<float>() ==
        adaptive_avg_pool3d(volume, {1, 2, 3}).to_vector<float>());
  CHECK(GlobalMaxPool()(volume).to_vector<float>() == max(volume, {2, 3, 4}).to_vector<float>());
  CHECK(GlobalAvgPool()(line).to_vector<float>() == mean(line, 2).to_vector<float>());
  CHECK(GlobalAvgPool()(volume).shape() == Shape{2, 2});
  CHECK(AdaptiveMaxPool3d({2, 3, 4}).to_string() == "AdaptiveMaxPool3d((2, 3, 4))");
  CHECK(make_layer("Conv2d", {1, 4, 3}, {{"padding", "same"}})->to_string() ==
        "Conv2d(1, 4, 3, padding 'same')");
  CHECK(message_of<InvalidArgument>([&] { Conv2d(1, 4, 3, {.stride = 2, .padding = "same"}); }) ==
        "Conv2d: padding is 'same' and a stride 2; 'same' wants strides of 1");
  CHECK(message_of<InvalidArgument>([&] {
          Conv1d(1, 4, {3, 3});
        }) == "Conv1d: kernel is (3, 3); want 1 number");
}

TEST_CASE("pooling, activations and flatten have the shapes they promise") {
  NDArray x = array<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -16}, {1, 1, 4, 4});
  CHECK(MaxPool2d(2)(x).to_vector<float>() == std::vector<float>{6, 8, 14, 15});
  CHECK(AvgPool2d(2)(x).to_vector<float>() == std::vector<float>{3.5, 5.5, 11.5, 5.5});
  CHECK(MaxPool2d(2, 1)(x).shape() == Shape{1, 1, 3, 3});
  CHECK(Flatten()(x).shape() == Shape{1, 16});
  NDArray y = array<float>({-1, 0, 2});
  CHECK(Relu()(y).to_vector<float>() == std::vector<float>{0, 0, 2});
  CHECK(Tanh()(y).to_vector<float>()[2] == doctest::Approx(std::tanh(2.0)));
  CHECK(Sigmoid()(y).to_vector<float>()[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
}

TEST_CASE("a batch norm keeps running statistics, and uses them in inference") {
  BatchNorm norm(2, {.momentum = 0.5});
  const NDArray x = array<float>({1, 10, 3, 30}, {2, 2});
  CHECK(norm(x).to_vector<float>()[0] == doctest::Approx(-1).epsilon(1e-4));
  const std::vector<Parameter> state = norm.state();
  REQUIRE(state.size() == 4);
  CHECK(state[2].name == "running_mean");
  CHECK(state[2].value.to_vector<float>() == std::vector<float>{1, 10});       // half of (2, 20)
  CHECK(state[3].value.to_vector<float>() == std::vector<float>{1.5, 100.5});  // half of 1 and of (2, 200)
  CHECK(norm.parameters().size() == 2);
  norm.train(false);
  const std::vector<float> y = norm(x).to_vector<float>();
  CHECK(y[0] == doctest::Approx(0).epsilon(1e-4));
  CHECK(y[3] == doctest::Approx(20 / std::sqrt(100.5)).epsilon(1e-4));
  CHECK(state[2].value.to_vector<float>() == std::vector<float>{1, 10});
  norm.train();
  CHECK(message_of<InvalidArgument>([&] {
          norm(ones({1, 2}));
        }).find("two elements or more of each channel") != std::string::npos);
  BatchNorm plain(2, {.weight = false, .bias = false});
  for (const DType dtype : {DType::f16, DType::f64}) {
    plain.train();
    CHECK(plain(x.astype(dtype)).dtype() == dtype);
    plain.train(false);
    CHECK(plain(x.astype(dtype)).dtype() == dtype);
  }
  Sequential net{Dense(kInferred, 4), BatchNorm(kInferred), Relu(), LayerNorm(kInferred), RmsNorm(kInferred)};
  const NDArray out = net(Generator(1).normal({8, 3}));
  backward(sum(out * out));
  for (const Parameter& parameter : net.parameters()) CHECK(grad(parameter.value).defined());
  CHECK(net.to_string().find("BatchNorm(4)") != std::string::npos);
}

TEST_CASE("dropout acts in training alone") {
  Generator generator(4);
  Sequential net{Dropout(0.5, generator)};
  NDArray x = ones({1000});
  int zeros_seen = 0;
  for (float value : net(x).to_vector<float>()) {
    CHECK((value == 0 || value == 2));
    zeros_seen += value == 0;
  }
  CHECK(zeros_seen > 400);
  CHECK(zeros_seen < 600);
  net.train(false);
  std::uint64_t position = generator.position();
  CHECK(net(x).to_vector<float>() == std::vector<float>(1000, 1.0f));
  CHECK(generator.position() == position);
}

TEST_CASE("a sequential names parameters by path, nests, and trains") {
  Generator generator(6);
  Sequential inner{Dense(3, 4, {.relu = true}, generator), Dense(4, 4, {.bias = false}, generator)};
  Sequential net{inner, Tanh(), Dense(4, 1, {}, generator)};
  std::vector<std::string> names;
  for (const Parameter& parameter : net.parameters()) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"0.0.weight", "0.0.bias", "0.1.weight", "2.weight", "2.bias"});
  CHECK(net.to_string().find("Dense(3, 4, relu)") != std::string::npos);
  NDArray y = net(generator.normal({5, 3}));
  backward(y, ones({5, 1}));
  for (const Parameter& parameter : net.parameters()) {
    REQUIRE(grad(parameter.value).defined());
    CHECK(grad(parameter.value).shape() == parameter.value.shape());
  }
  Sequential copy = net;
  CHECK(copy.size() == 3);
  CHECK(copy.parameters()[0].value.var() == net.parameters()[0].value.var());
  net.add(std::make_shared<Relu>());
  CHECK(net.size() == 4);
  CHECK(copy.size() == 4);
  CHECK(net.to_string() ==
        "Sequential{\n  Sequential{\n    Dense(3, 4, relu)\n    Dense(4, 4, no bias)\n  }\n  Tanh\n  "
        "Dense(4, 1)\n  "
        "Relu\n}");
  CHECK(message_of<InvalidArgument>([&] { net[4]; }) == "Sequential: index is 4; there are 4 modules");
}

TEST_CASE("a sequential does not hold itself") {
  const auto outer = std::make_shared<Sequential>(), inner = std::make_shared<Sequential>();
  const std::string refused = "Sequential: child '0' is, or holds, this module; want another one";
  outer->add(Sequential(Relu()));
  outer->add(inner);
  for (const auto& layer : {inner, outer}) {
    try {
      inner->add(layer);
      FAIL("not refused");
    } catch (const InvalidArgument& error) {
      CHECK(error.message() == refused);
    }
  }
  outer->add(inner);
  CHECK(outer->size() == 3);
  CHECK(inner->size() == 0);
}

TEST_CASE("layers say which layer and which shapes do not fit") {
  Generator generator(6);
  Sequential net{Flatten(), Dense(6, 2, {}, generator)};
  CHECK(message_of<InvalidArgument>([&] {
          net(zeros({4, 5}));
        }) == "layer 1: Dense(6, 2): the input is f32 (4, 5), wanted is (batch..., 6)");
  Conv2d conv(3, 8, 5, {.stride = 2, .padding = 1}, generator);
  CHECK(message_of<InvalidArgument>([&] {
          conv(zeros({1, 1, 9, 9}));
        }) ==
        "Conv2d(3, 8, 5, stride 2, padding 1): the input is f32 (1, 1, 9, 9), wanted is (batch, 3, height, "
        "width)");
  CHECK(message_of<InvalidArgument>([&] {
          MaxPool2d(2)(zeros({4, 4}));
        }) == "MaxPool2d(2): the input is f32 (4, 4), wanted is (batch, channels, height, width)");
  CHECK(message_of<InvalidArgument>([&] { Flatten()(zeros({4})); }) ==
        "Flatten: the input is f32 (4,), wanted is (batch, size, ...)");
  CHECK_THROWS_AS(Dense(0, 1), InvalidArgument);
  CHECK_THROWS_AS(Conv2d(1, 1, 0), InvalidArgument);
  CHECK_THROWS_AS(MaxPool2d(-2), InvalidArgument);
  CHECK_THROWS_AS(Dropout(1.0), InvalidArgument);
  CHECK_THROWS_AS(Sequential().add(std::shared_ptr<Module>()), InvalidArgument);
  CHECK_THROWS_AS(init_weight({4}, Init::he, generator), InvalidArgument);
  CHECK(message_of<InvalidArgument>([] { Conv3d(1, 1, std::int64_t{1} << 31); }) ==
        "init_weight: shape (1, 1, 2147483648, 2147483648, 2147483648) has more elements than fit 64 bits");
}
