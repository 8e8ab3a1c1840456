// Random elementwise operators on a GPU have the bits of the CPU: dtypes, shapes, strides, broadcasting and scalars are drawn.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/linalg.h>
#include <heddle/ndarray.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Unary = std::function<NDArray(const NDArray&)>;
using Binary = std::function<NDArray(const Operand&, const Operand&)>;
template <class F> struct Named {
  std::string name;
  F call;
  bool exact = true;
};

#define HEDDLE_OF_ONE(name)                         \
  Named<Unary> {                                    \
#name, [](const NDArray& x) { return name(x); } \
  }
#define HEDDLE_OF_TWO(name)                                              \
  Named<Binary> {                                                        \
#name, [](const Operand& a, const Operand& b) { return name(a, b); } \
  }

std::vector<Named<Unary>> unary_operators() {
  std::vector<Named<Unary>> all = {HEDDLE_OF_ONE(negative), HEDDLE_OF_ONE(abs),  HEDDLE_OF_ONE(square),
                                   HEDDLE_OF_ONE(relu),     HEDDLE_OF_ONE(sqrt), HEDDLE_OF_ONE(logical_not),
                                   HEDDLE_OF_ONE(exp),      HEDDLE_OF_ONE(log),  HEDDLE_OF_ONE(tanh),
                                   HEDDLE_OF_ONE(sigmoid)};
  for (std::size_t i = 6; i < all.size(); ++i) all[i].exact = false;  // functions of libraries
  return all;
}

std::vector<Named<Binary>> binary_operators() {
  return {HEDDLE_OF_TWO(add),         HEDDLE_OF_TWO(subtract),   HEDDLE_OF_TWO(multiply),
          HEDDLE_OF_TWO(divide),      HEDDLE_OF_TWO(maximum),    HEDDLE_OF_TWO(minimum),
          HEDDLE_OF_TWO(equal),       HEDDLE_OF_TWO(not_equal),  HEDDLE_OF_TWO(less),
          HEDDLE_OF_TWO(less_equal),  HEDDLE_OF_TWO(greater),    HEDDLE_OF_TWO(greater_equal),
          HEDDLE_OF_TWO(logical_and), HEDDLE_OF_TWO(logical_or), HEDDLE_OF_TWO(logical_xor)};
}

TEST_CASE("unary operators on a GPU have the values of the CPU") {
  for (const Named<Unary>& op : unary_operators()) {
    for (const DType dtype : kAllDTypes) {
      for (int seed = 0; seed < 3; ++seed) {
        Random random(static_cast<std::uint64_t>(seed) * 100 + static_cast<std::uint64_t>(dtype));
        CAPTURE(op.name);
        CAPTURE(name_of(dtype));
        CAPTURE(seed);
        CHECK(compare(op.call, random_pair(random, random_shape(random), dtype), op.exact));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("binary operators on a GPU have the values of the CPU") {
  for (const Named<Binary>& op : binary_operators()) {
    for (int seed = 0; seed < 40; ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      CAPTURE(op.name);
      CAPTURE(seed);
      const Shape shape = random_shape(random);
      const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
      const Pair a = random_pair(random, shape, dtype);
      const Pair b = random_pair(random, shape, seed % 2 ? dtype : random_dtype(random));
      const double number = random() % 2 ? 3 : 2.5;
      const std::uint64_t kind = random() % 4;
      const auto call = [&](const NDArray& x) {
        const NDArray& other = x.device() == cpu() ? b.here : b.there;
        if (kind == 0) return op.call(x, number);
        if (kind == 1) return op.call(number, x);
        return op.call(x, other);
      };
      CHECK(compare(call, a, true));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("dense arrays of all sizes, from any element on, have the values of the CPU") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i16}) {
    Random random(static_cast<std::uint64_t>(dtype));
    const NDArray all = random_values(random, {60}, dtype), other = all.copy_to(gpu(0));
    for (const std::int64_t begin : {0, 1, 2, 3, 4, 6, 8}) {
      for (const std::int64_t size : {1, 3, 4, 7, 8, 9, 33}) {
        CAPTURE(name_of(dtype));
        CAPTURE(begin);
        CAPTURE(size);
        const auto call = [&](const NDArray& x) {
          const NDArray a = x.slice(0, {.begin = begin, .end = begin + size}),
                        b = x.slice(0, {.begin = 16, .end = 16 + size});
          return maximum(a + b, a * 3);
        };
        CHECK(same_bits(call(all), call(other)));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("where() on a GPU has the values of the CPU") {
  for (int seed = 0; seed < 60; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const Shape shape = random_shape(random);
    const DType dtype = random_dtype(random);
    const Pair condition = random_pair(random, shape, DType::boolean), a = random_pair(random, shape, dtype),
               b = random_pair(random, shape, dtype);
    const NDArray here =
        random() % 3 ? where(condition.here, a.here, b.here) : where(condition.here, a.here, 1);
    Random again(static_cast<std::uint64_t>(seed));
    const NDArray both = where(condition.there, a.there, b.there), one = where(condition.there, a.there, 1);
    CHECK((same_bits(here, both) || same_bits(here, one)));
    CHECK(same_bits(where(condition.here, a.here, b.here), both));
    CHECK(same_bits(where(condition.here, 1, b.here), where(condition.there, 1, b.there)));
  }
  CHECK(problems() == "");
}

TEST_CASE("the gradient of an expression is computed on the GPU") {
  const auto run = [](Device device) {
    NDArray x = (arange(-50, 50, 1, DType::f32) / 7).copy_to(device), w = arange(100).copy_to(device);
    x.set_requires_grad();
    w.set_requires_grad();
    const NDArray y = maximum(relu(x) * w - square(x), x / 3) + abs(w) * 0.5;
    y.backward(ones({100}, DType::f32, device));
    CHECK(x.grad().device() == device);
    return std::pair(x.grad().to_vector<float>(), w.grad().to_vector<float>());
  };
  CHECK(run(gpu(0)) == run(cpu()));
  CHECK(problems() == "");
}

TEST_CASE("arrays on two devices are refused") {
  CHECK_THROWS_AS(add(ones({3, 3}, DType::f32, gpu(0)), ones({3, 3})), InvalidArgument);
}

}  // namespace
