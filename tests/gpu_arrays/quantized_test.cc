// Products of 8-bit integers on a GPU have the CPU's bits: sums are exact, and the results are made of them by the same operations.
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/creation.h>
#include <heddle/quantized/products.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray numbers(Random& random, const Shape& shape, double most) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63 * most);
  return array(values, shape).astype(DType::f32);
}

QuantizedWeights random_weights(Random& random, const Shape& shape, bool with_bias) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    bytes.push_back(static_cast<std::int64_t>(random() % 256) - 128);
  QuantizedWeights made{array(bytes, shape).astype(DType::i8), numbers(random, {shape[0]}, 0.1),
                        full({1}, 0.05, DType::f32),
                        full({1}, static_cast<double>(random() % 300) - 20, DType::i32)};
  if (with_bias) made.bias = numbers(random, {shape[0]}, 3);
  return made;
}

QuantizedWeights there(const QuantizedWeights& here) {
  const auto copied = [](const NDArray& one) { return one.defined() ? one.copy_to(gpu(0)) : one; };
  return {copied(here.weight), copied(here.weight_scale), copied(here.input_scale),
          copied(here.input_zero_point), copied(here.bias)};
}

TEST_CASE("quantized_linear on a GPU has the CPU's bits") {
  Random random(1);
  // Few results with long sums are divided; large ones have larger tiles.
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 7, 5}, {33, 64, 70}, {2, 4096, 3},  {1, 65536, 2},
                                   {0, 4, 4}, {4, 0, 3}, {4, 3, 0},    {17, 4097, 9}, {1500, 8, 760}};
  for (const auto& size : sizes) {
    for (const bool relu : {false, true}) {
      CAPTURE(size[0]);
      CAPTURE(size[1]);
      CAPTURE(size[2]);
      const NDArray x = numbers(random, {size[0], size[1]}, 8);
      const QuantizedWeights w = random_weights(random, {size[2], size[1]}, relu);
      CHECK(same_bits(quantized_linear(x, w, {.relu = relu}),
                      quantized_linear(x.copy_to(gpu(0)), there(w), {.relu = relu})));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("any numbers become the CPU's bytes on a GPU, also those of strided halves") {
  Random random(2);
  const std::vector<double> odd = {NAN,  INFINITY, -INFINITY, 0.025, 0.075, -0.025, 0.125, 1e30,
                                   -0.0, 6.35,     6.375,     12.75, 1e-40, -6.4,   3.3,   2.225};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const NDArray x = array(odd, {4, 4}).astype(dtype);
    QuantizedWeights w = random_weights(random, {5, 2}, true);
    for (const double scale : {0.05, 0.0, 1e-30, HUGE_VAL}) {
      w.input_scale = full({1}, scale, DType::f32);
      CHECK(same_bits(quantized_linear(x.slice(1, {.step = 2}), w),
                      quantized_linear(x.copy_to(gpu(0)).slice(1, {.step = 2}), there(w))));
    }
  }
  CHECK(problems() == "");
}

struct Case {
  Shape x, weight;
  ConvOptions options;
};
const std::vector<Case> kCases = {
    {{2, 3, 11}, {4, 3, 3}, {}},
    {{1, 10, 12}, {6, 5, 3}, {{2}, {1}, {2}, 2, true}},
    {{2, 3, 7, 9}, {5, 3, 3, 3}, {{1}, {1}, {1}, 1, true}},
    {{1, 2, 8, 8}, {3, 2, 3, 2}, {{2, 3}, {1, 0}, {2, 1}, 1, false}},
    {{2, 4, 6, 5}, {4, 1, 3, 3}, {{1}, {1}, {1}, 4, false}},  // depthwise
    {{3, 33, 4, 4}, {70, 33, 1, 1}, {{2}, {0}, {1}, 1, false}},
    {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {{1, 2, 1}, {0, 1, 1}, {1, 1, 2}, 1, true}},
    {{2, 700, 3, 3}, {2, 700, 3, 3}, {}},  // long sums, which are divided
    {{0, 3, 5}, {2, 3, 3}, {}}};

TEST_CASE("quantized convolutions on a GPU have the CPU's bits") {
  Random random(3);
  for (const Case& one : kCases) {
    for (const bool with_bias : {false, true}) {
      CAPTURE(one.x.to_string());
      const auto convolve = [&](const NDArray& x, const QuantizedWeights& w) {
        if (one.x.size() == 3) return quantized_conv1d(x, w, one.options);
        if (one.x.size() == 4) return quantized_conv2d(x, w, one.options);
        return quantized_conv3d(x, w, one.options);
      };
      const NDArray x = numbers(random, one.x, 8);
      const QuantizedWeights w = random_weights(random, one.weight, with_bias);
      CHECK(same_bits(convolve(x, w), convolve(x.copy_to(gpu(0)), there(w))));
    }
  }
  CHECK(problems() == "");
}

}  // namespace
