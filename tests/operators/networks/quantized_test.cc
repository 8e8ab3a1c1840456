// Products of 8-bit integers, compared with sums of integers written from their definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/random.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

struct Sizes3 {
  std::int64_t n, groups, in, out;  // in, out: channels of a group
  std::int64_t size[3], kernel[3], stride[3], padding[3], dilation[3];
  int axes;
};

struct Case {
  NDArray x;
  QuantizedWeights weights;
  float scale;
  int zero_point;
};

NDArray weight_bytes(Generator& generator, const Shape& shape) {
  return generator.integers(shape, -127, 128, DType::i32).astype(DType::i8);
}

Case random_case(Generator& generator, const Shape& x, const Shape& weight, bool bias) {
  const std::int64_t outputs = weight[0];
  const int zero_point = generator.integers({1}, 0, 256, DType::i32).item<std::int32_t>();
  const float scale = 0.03125f;
  Case made{generator.normal(x, 0, 2), {}, scale, zero_point};
  made.weights.weight = weight_bytes(generator, weight);
  made.weights.weight_scale = generator.uniform({outputs}, 0.001, 0.02);
  made.weights.input_scale = full({1}, scale, DType::f32);
  made.weights.input_zero_point = full({1}, zero_point, DType::i32);
  if (bias) made.weights.bias = generator.normal({outputs}, 0, 1);
  return made;
}

std::vector<int> bytes_of(const Case& c) {
  std::vector<int> bytes;
  for (const float value : c.x.to_vector<float>())
    bytes.push_back(std::clamp(static_cast<int>(std::nearbyint(value / c.scale)) + c.zero_point, 0, 255));
  return bytes;
}

float result_of_sum(const Case& c, std::int64_t sum, std::size_t output, bool relu) {
  const float scale = c.weights.weight_scale.to_vector<float>()[output];
  const double bias =
      c.weights.bias.defined() ? static_cast<double>(c.weights.bias.to_vector<float>()[output]) : 0.0;
  const double y =
      static_cast<double>(sum) * static_cast<double>(c.scale) * static_cast<double>(scale) + bias;
  return static_cast<float>(relu ? std::max(y, 0.0) : y);
}

void check_close(const NDArray& found, const std::vector<float>& wanted) {
  const std::vector<float> values = found.to_vector<float>();
  REQUIRE(values.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(values[i] - wanted[i])) /
                                (1 + std::abs(static_cast<double>(wanted[i]))));
  CHECK(worst < 2e-6);
}

std::vector<float> linear_oracle(const Case& c, std::int64_t rows, std::int64_t in, std::int64_t out,
                                 bool relu) {
  const std::vector<int> x = bytes_of(c);
  const std::vector<std::int8_t> w = c.weights.weight.to_vector<std::int8_t>();
  std::vector<float> y;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < in; ++i)
        sum += (x[static_cast<std::size_t>(r * in + i)] - c.zero_point) *
               w[static_cast<std::size_t>(o * in + i)];
      y.push_back(result_of_sum(c, sum, static_cast<std::size_t>(o), relu));
    }
  return y;
}

std::int64_t result_size(const Sizes3& s, int axis) {
  return (s.size[axis] + 2 * s.padding[axis] - s.dilation[axis] * (s.kernel[axis] - 1) - 1) / s.stride[axis] +
         1;
}

// The sum for one output: image n, output o, at (z, y, x).
std::int64_t conv_sum(const Sizes3& s, const Case& c, const std::vector<int>& bytes,
                      const std::vector<std::int8_t>& weight, std::int64_t n, std::int64_t o,
                      const std::int64_t (&at)[3]) {
  std::int64_t sum = 0;
  const std::int64_t group = o / s.out, channels = s.groups * s.in;
  for (std::int64_t i = 0; i < s.in; ++i)
    for (std::int64_t a = 0; a < s.kernel[0]; ++a)
      for (std::int64_t b = 0; b < s.kernel[1]; ++b)
        for (std::int64_t d = 0; d < s.kernel[2]; ++d) {
          const std::int64_t z = at[0] * s.stride[0] - s.padding[0] + a * s.dilation[0],
                             y = at[1] * s.stride[1] - s.padding[1] + b * s.dilation[1],
                             x = at[2] * s.stride[2] - s.padding[2] + d * s.dilation[2];
          if (z < 0 || z >= s.size[0] || y < 0 || y >= s.size[1] || x < 0 || x >= s.size[2]) continue;
          const std::int64_t pixel =
              (((n * channels + group * s.in + i) * s.size[0] + z) * s.size[1] + y) * s.size[2] + x;
          const std::int64_t tap = (((o * s.in + i) * s.kernel[0] + a) * s.kernel[1] + b) * s.kernel[2] + d;
          sum +=
              (bytes[static_cast<std::size_t>(pixel)] - c.zero_point) * weight[static_cast<std::size_t>(tap)];
        }
  return sum;
}

std::vector<float> conv_oracle(const Sizes3& s, const Case& c, bool relu) {
  const std::vector<int> bytes = bytes_of(c);
  const std::vector<std::int8_t> weight = c.weights.weight.to_vector<std::int8_t>();
  std::vector<float> y;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.groups * s.out; ++o)
      for (std::int64_t a = 0; a < result_size(s, 0); ++a)
        for (std::int64_t b = 0; b < result_size(s, 1); ++b)
          for (std::int64_t d = 0; d < result_size(s, 2); ++d)
            y.push_back(result_of_sum(c, conv_sum(s, c, bytes, weight, n, o, {a, b, d}),
                                      static_cast<std::size_t>(o), relu));
  return y;
}

Sizes3 random_sizes(Generator& generator, int axes) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return generator.integers({1}, low, high + 1).item<std::int64_t>();
  };
  Sizes3 s{draw(1, 3), draw(1, 3), draw(1, 20), draw(1, 20), {}, {}, {}, {}, {}, axes};
  if (draw(0, 3) == 0) s.groups = draw(1, 16), s.in = 1, s.out = 1;  // depthwise
  for (int axis = 0; axis < 3; ++axis) {
    const bool used = axis >= 3 - axes;
    s.kernel[axis] = used ? draw(1, 3) : 1;
    s.stride[axis] = used ? draw(1, 3) : 1;
    s.padding[axis] = used ? draw(0, 2) : 0;
    s.dilation[axis] = used ? draw(1, 2) : 1;
    s.size[axis] = used ? draw(5, 9) : 1;
  }
  return s;
}

Dims used(const std::int64_t (&all)[3], int axes) {
  Dims some;
  for (int axis = 3 - axes; axis < 3; ++axis) some.push_back(all[axis]);
  return some;
}

Shape shape_of(std::int64_t first, std::int64_t second, const Dims& sizes) {
  Shape shape{first, second};
  for (const std::int64_t size : sizes) shape.push_back(size);
  return shape;
}

}  // namespace

TEST_CASE("quantized_linear computes sums of integers") {
  Generator generator(5);
  for (const auto& [rows, in, out] : {std::array<std::int64_t, 3>{1, 1, 1},
                                      {3, 7, 5},
                                      {1, 300, 10},
                                      {70, 33, 129},
                                      {300, 64, 70},
                                      {2, 1000, 3},
                                      {0, 4, 3},
                                      {4, 0, 3}}) {
    for (const bool relu : {false, true}) {
      CAPTURE(rows);
      CAPTURE(in);
      CAPTURE(out);
      const Case c = random_case(generator, {rows, in}, {out, in}, relu);
      check_close(quantized_linear(c.x, c.weights, {.relu = relu}), linear_oracle(c, rows, in, out, relu));
    }
  }
  const Case many = random_case(generator, {2, 3, 8}, {4, 8}, true);
  CHECK(quantized_linear(many.x, many.weights).shape() == Shape{2, 3, 4});
  check_close(quantized_linear(many.x, many.weights), linear_oracle(many, 6, 8, 4, false));
}

TEST_CASE("sums of 8-bit products are exact") {
  // With scales of 1 results below 2^24 are the sums; the largest bytes and weights overflow sums of 16 bits.
  for (const std::int64_t in : {16, 64, 256, 500}) {
    const NDArray x = full({3, in}, 255.0f);
    const QuantizedWeights w{full({5, in}, -127, DType::i8), ones({5}), ones({1}), zeros({1}, DType::i32)};
    CHECK(quantized_linear(x, w).to_vector<float>() ==
          std::vector<float>(15, static_cast<float>(-255 * 127 * in)));
    const QuantizedWeights kernel{full({5, in, 1, 1}, 127, DType::i8), ones({5}), ones({1}),
                                  zeros({1}, DType::i32)};
    CHECK(quantized_conv2d(reshape(x, {3, in, 1, 1}), kernel).to_vector<float>() ==
          std::vector<float>(15, static_cast<float>(255 * 127 * in)));
  }
  // the most products, whose sums have 32 bits
  const QuantizedWeights most{full({1, 65536}, -128, DType::i8), ones({1}), ones({1}),
                              zeros({1}, DType::i32)};
  CHECK(quantized_linear(full({1, 65536}, 255.0f), most).item<float>() == -255.0f * 128.0f * 65536.0f);
}

TEST_CASE("quantized convolutions compute sums of integers") {
  Generator generator(6);
  for (int axes = 1; axes <= 3; ++axes) {
    const auto convolve = axes == 1 ? quantized_conv1d : axes == 2 ? quantized_conv2d : quantized_conv3d;
    for (int i = 0; i < 25; ++i) {
      const Sizes3 s = random_sizes(generator, axes);
      CAPTURE(axes);
      CAPTURE(i);
      const bool relu = i % 2 == 0;
      const Case c = random_case(generator, shape_of(s.n, s.groups * s.in, used(s.size, axes)),
                                 shape_of(s.groups * s.out, s.in, used(s.kernel, axes)), i % 3 != 0);
      const NDArray y = convolve(c.x, c.weights,
                                 {.stride = used(s.stride, axes),
                                  .padding = Padding(used(s.padding, axes)),
                                  .dilation = used(s.dilation, axes),
                                  .groups = s.groups,
                                  .relu = relu},
                                 Where::current());
      check_close(y, conv_oracle(s, c, relu));
    }
  }
}

TEST_CASE("quantized convolutions of layers that networks have") {
  Generator generator(7);
  for (const Sizes3& s : {Sizes3{2, 1, 1, 16, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2},
                          Sizes3{2, 1, 32, 64, {1, 9, 9}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 2},
                          Sizes3{3, 32, 1, 1, {1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2},
                          Sizes3{1, 1, 64, 32, {1, 7, 7}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 2}}) {
    const Case c = random_case(generator, shape_of(s.n, s.groups * s.in, used(s.size, 2)),
                               shape_of(s.groups * s.out, s.in, used(s.kernel, 2)), true);
    check_close(
        quantized_conv2d(c.x, c.weights,
                         {.stride = used(s.stride, 2), .padding = used(s.padding, 2), .groups = s.groups}),
        conv_oracle(s, c, false));
  }
}

TEST_CASE("8-bit products give the same bits on every engine") {
  std::vector<std::vector<float>> linear, conv;
  for (const EngineOptions& options :
       {EngineOptions{.workers = 1}, EngineOptions{.workers = 2}, EngineOptions{.workers = 4},
        EngineOptions{.scheduler = Scheduler::naive},
        EngineOptions{.scheduler = Scheduler::fuzz, .seed = 3}}) {
    Engine engine(options);
    const EngineScope scope(engine);
    Generator generator(8);
    const Case rows = random_case(generator, {600, 128}, {300, 128}, true);
    linear.push_back(quantized_linear(rows.x, rows.weights).to_vector<float>());
    const Case images = random_case(generator, {37, 16, 14, 14}, {32, 16, 3, 3}, true);
    conv.push_back(
        quantized_conv2d(images.x, images.weights, {.padding = "same", .relu = true}).to_vector<float>());
  }
  for (const auto& one : linear) CHECK(one == linear[0]);
  for (const auto& one : conv) CHECK(one == conv[0]);
}

TEST_CASE("inputs that are no numbers, and scales that are none, write bytes all the same") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kMuch = std::numeric_limits<float>::infinity();
  const NDArray x = array<float>({kNan, kMuch, -kMuch, 1e30f}).reshape(1, 4);
  QuantizedWeights w{ones({1, 4}, DType::i8), ones({1}), ones({1}), full({1}, 10, DType::i32)};
  CHECK(quantized_linear(x, w).item<float>() == (10 + 255 + 0 + 255) - 4 * 10);
  for (const float scale : {0.0f, kNan, -1.0f}) {
    w.input_scale = full({1}, scale, DType::f32);
    w.input_zero_point = full({1}, 1000, DType::i32);
    CHECK(quantized_linear(x, w).size() == 1);
    quantized_linear(x, w).wait();
  }
}

TEST_CASE("8-bit products take floating inputs of all dtypes and give f32") {
  Generator generator(9);
  const Case c = random_case(generator, {5, 8}, {3, 8}, true);
  const NDArray halves = c.x.astype(DType::bf16);
  CHECK(quantized_linear(halves, c.weights).dtype() == DType::f32);
  CHECK(quantized_linear(halves, c.weights).to_vector<float>() ==
        quantized_linear(halves.astype(DType::f32), c.weights).to_vector<float>());
  CHECK(quantized_linear(c.x.astype(DType::f64), c.weights).to_vector<float>() ==
        quantized_linear(c.x, c.weights).to_vector<float>());
  const NDArray across = c.x.T().contiguous().T();  // not contiguous
  CHECK(quantized_linear(across, c.weights).to_vector<float>() ==
        quantized_linear(c.x, c.weights).to_vector<float>());
}

TEST_CASE("8-bit products refuse arrays that do not fit") {
  const NDArray x = ones({2, 4});
  const QuantizedWeights good{ones({3, 4}, DType::i8), ones({3}), ones({1}), zeros({1}, DType::i32)};
  const auto refusal = [&](const NDArray& of, const QuantizedWeights& w) {
    return message_of<InvalidArgument>([&] { quantized_linear(of, w); });
  };
  QuantizedWeights bad = good;
  bad.weight = ones({3, 4});
  CHECK(refusal(x, bad) == "quantized_linear: weight is f32; want i8");
  bad = good;
  bad.weight_scale = ones({4});
  CHECK(refusal(x, bad) == "quantized_linear: weight_scale is f32 (4,); want f32 (3,)");
  bad = good;
  bad.input_zero_point = zeros({1});
  CHECK(refusal(x, bad) == "quantized_linear: input_zero_point is f32 (1,); want i32 (1,)");
  bad = good;
  bad.bias = ones({2});
  CHECK(refusal(x, bad) == "quantized_linear: bias is f32 (2,); want f32 (3,)");
  CHECK(refusal(ones({2, 5}), good) ==
        "quantized_linear: x (2, 5) and weight (3, 4); wanted (..., in) and (out, in)");
  CHECK(refusal(ones({2, 4}, DType::i32), good).find("quantized_linear") == 0);
  bad = good;
  bad.weight = zeros({3, 65537}, DType::i8);
  CHECK(refusal(ones({1, 65537}), bad) ==
        "quantized_linear: each result is a sum of 65537 products; want at most 65536, whose sum fits into "
        "32 bits");
  QuantizedWeights kernel{ones({3, 2, 3, 3}, DType::i8), ones({3}), ones({1}), zeros({1}, DType::i32)};
  CHECK(message_of<InvalidArgument>([&] {
          quantized_conv2d(ones({1, 3, 5, 5}), kernel);
        }) ==
        "quantized_conv2d: x (1, 3, 5, 5), weight (3, 2, 3, 3), groups 1; wanted a weight of 3 channels");
  CHECK(message_of<InvalidArgument>([&] {
          quantized_conv2d(ones({1, 2, 5, 5}), kernel, {.stride = 1'000'000, .padding = 100'000'000});
        }) == "quantized_conv2d: an image has more than 2^31 elements with its padding");
}
