// Convolutions and their gradients on a GPU. Sums of small integers are exact in any order, so values have the CPU's bits; those of
// other numbers differ by the roundings of their terms (products_test.cc).
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/conv.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray integers(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(random() % 7) - 3);
  return array(values, shape).astype(dtype);
}

using Leaves = std::vector<NDArray>;
using Call = std::function<NDArray(const Leaves&)>;

// The value and the gradients of `call` on a device.
Leaves run(const Call& call, const Leaves& inputs, Device device, std::uint64_t seed) {
  Leaves leaves, results;
  for (const NDArray& input : inputs) {
    leaves.push_back(input.copy_to(device));
    leaves.back().set_requires_grad();
  }
  const NDArray y = call(leaves);
  Random random(seed);
  y.backward(integers(random, y.shape(), y.dtype()).copy_to(device));
  results.push_back(y.detach());
  for (const NDArray& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void compare_all(const Call& call, const Leaves& inputs) {
  const Leaves here = run(call, inputs, cpu(), 9), there = run(call, inputs, gpu(0), 9);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(here[i], there[i]));
  }
}

struct Case {
  Shape x, weight;
  ConvOptions options;
};
const std::vector<Case> kCases = {
    {{2, 3, 11}, {4, 3, 3}, {}},
    {{1, 4, 12}, {6, 2, 3}, {{2}, {1}, {2}, 2, true}},
    {{2, 3, 7, 9}, {5, 3, 3, 3}, {{1}, {1}, {1}, 1, true}},
    {{1, 2, 8, 8}, {3, 2, 3, 2}, {{2, 3}, {1, 0}, {2, 1}, 1, false}},
    {{2, 4, 6, 5}, {4, 1, 3, 3}, {{1}, {1}, {1}, 4, false}},  // depthwise
    {{3, 5, 4, 4}, {70, 5, 1, 1}, {{2}, {0}, {1}, 1, false}},
    {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {{1, 2, 1}, {0, 1, 1}, {1, 1, 2}, 1, true}},
    {{2, 130, 3, 3}, {2, 130, 3, 3}, {{1}, {1}, {1}, 1, false}},  // long sums, which are divided
    {{5, 1, 17, 19}, {1, 1, 2, 2}, {{1}, {2}, {1}, 1, false}},    // long sums of weights
};

NDArray convolve(const Case& one, const NDArray& x, const NDArray& weight, const NDArray& bias) {
  if (one.x.size() == 3) return conv1d(x, weight, bias, one.options);
  if (one.x.size() == 4) return conv2d(x, weight, bias, one.options);
  return conv3d(x, weight, bias, one.options);
}

TEST_CASE("convolutions and their gradients on a GPU have the values of the CPU") {
  Random random(1);
  std::size_t number = 0;
  for (const Case& one : kCases) {
    for (const bool with_bias : {false, true}) {
      const DType dtype = std::vector{DType::f32, DType::f64, DType::f16, DType::bf16}[number % 4];
      CAPTURE(number++);
      CAPTURE(name_of(dtype));
      Leaves inputs{integers(random, one.x, dtype), integers(random, one.weight, dtype)};
      if (with_bias) inputs.push_back(integers(random, {one.weight[0]}, dtype));
      compare_all(
          [&](const Leaves& in) { return convolve(one, in[0], in[1], with_bias ? in[2] : NDArray()); },
          inputs);
    }
    compare_all([&](const Leaves& in) { return convolve(one, in[0], in[1], {}); },
                {integers(random, one.x, DType::f32), integers(random, one.weight, DType::f32)});
  }
  CHECK(problems() == "");
}

// What is beyond the border takes no part, also where a weight or a gradient is infinite. So it is on the CPU in f64; of f32 oneDNN
// multiplies zeros for some shapes.
TEST_CASE("infinite weights and inputs give NaN on a GPU where the CPU has it in f64") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Random random(4);
    for (const Case& one : kCases) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(one.x.to_string());
      Leaves inputs{integers(random, one.x, DType::f64), integers(random, one.weight, DType::f64)}, given;
      for (const NDArray& input : inputs) {
        input.view_as({input.size()}).slice(0, {.end = 1}).assign(full({1}, HUGE_VAL, DType::f64));
        given.push_back(input.astype(dtype));
      }
      const Call call = [&](const Leaves& in) { return convolve(one, in[0], in[1], {}); };
      const Leaves here = run(call, inputs, cpu(), 9), there = run(call, given, gpu(0), 9);
      for (std::size_t i = 0; i < here.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(here[i].astype(dtype), there[i]));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("transposed convolutions and their gradients on a GPU have the values of the CPU") {
  Random random(2);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const auto values = [&](const Shape& shape) { return integers(random, shape, dtype); };
    compare_all(
        [](const Leaves& in) {
          return conv_transpose1d(in[0], in[1], {}, {{2}, {1}, {1}, {1}, 1});
        },
        {values({2, 3, 5}), values({3, 4, 3})});
    compare_all(
        [](const Leaves& in) {
          return conv_transpose2d(in[0], in[1], {}, {{2, 1}, {1}, {0}, {2}, 2});
        },
        {values({1, 4, 4, 5}), values({4, 3, 2, 3})});
    compare_all(
        [](const Leaves& in) {
          return conv_transpose3d(in[0], in[1], {}, {{1}, {0}, {0}, {1}, 1});
        },
        {values({1, 2, 2, 3, 2}), values({2, 2, 2, 2, 2})});
  }
  CHECK(problems() == "");
}

TEST_CASE("mixed precision: a convolution of f32 arrays in bf16, with a bias of f32") {
  Random random(3);
  compare_all(
      [](const Leaves& in) {
        const Autocast mixed(DType::bf16);
        return conv2d(in[0], in[1], in[2] / 8, {{1}, {1}, {1}, 1, true});
      },
      {integers(random, {2, 3, 6, 6}, DType::f32), integers(random, {4, 3, 3, 3}, DType::f32),
       integers(random, {4}, DType::f32)});
  CHECK(problems() == "");
}

// One of the k = 27 products of a result, or of the 180 of a weight, is at most 1: the roundings are at most k * k * epsilon.
TEST_CASE("convolutions of fractions are within the roundings of their terms") {
  Random random(4);
  const auto fractions = [&](const Shape& shape) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-65);
    return array(values, shape).astype(DType::f32);
  };
  const Leaves inputs{fractions({2, 3, 9, 10}), fractions({4, 3, 3, 3}), fractions({4})};
  const auto call = [](const Leaves& in) { return conv2d(in[0], in[1], in[2], {{1}, {1}}); };
  const Leaves here = run(call, inputs, cpu(), 5), there = run(call, inputs, gpu(0), 5);
  const double terms[] = {28, 36, 180, 180};
  for (std::size_t i = 0; i < here.size(); ++i) {
    const auto a = here[i].to_vector<float>(), b = there[i].copy_to(cpu()).to_vector<float>();
    REQUIRE(a.size() == b.size());
    for (std::size_t j = 0; j < a.size(); ++j) {
      CHECK(std::fabs(a[j] - b[j]) <= terms[i] * terms[i] * 0x1p-23);
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("a convolution on a GPU refuses what the CPU refuses, and takes no images") {
  Random random(6);
  const NDArray x = integers(random, {1, 2, 4, 4}, DType::f32),
                weight = integers(random, {1, 3, 3, 3}, DType::f32);
  const auto call = [&](const NDArray& on) { return conv2d(on, weight.copy_to(on.device()), {}); };
  CHECK(compare(call, {x, x.copy_to(gpu(0))}, true));
  compare_all([](const Leaves& in) { return conv2d(in[0], in[1], {}); },
              {zeros({0, 3, 5, 5}), integers(random, {2, 3, 3, 3}, DType::f32)});
  CHECK(problems() == "");
}

}  // namespace
