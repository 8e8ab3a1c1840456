// Random elementwise operators on a GPU have the bits of the CPU: dtypes, shapes, strides, broadcasting and scalars are drawn.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/ndarray.h>

#include "problems.h"

using namespace heddle;

namespace {

using Random = std::mt19937_64;

// The same values on the CPU and on a GPU, in one layout.
struct Pair {
  NDArray here, there;
};

Shape random_shape(Random& random) {
  static const std::vector<Shape> shapes = {{},           {1},      {31},     {32},     {33},        {1023},
                                            {1024},       {1025},   {0},      {5, 0},   {3, 1, 7},   {64, 17},
                                            {2, 3, 4, 5}, {1, 300}, {300, 1}, {40, 40}, {2, 1, 129}, {4096}};
  return shapes[random() % shapes.size()];
}

NDArray random_values(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    const std::uint64_t what = random() % 24;
    const double number = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    values.push_back(what == 0   ? INFINITY
                     : what == 1 ? -INFINITY
                     : what == 2 ? NAN
                     : what == 3 ? 0.0
                     : what == 4 ? -0.0
                     : what == 5 ? number * 0x1p64
                     : what == 6 ? number * 1e-40
                     : what < 12 ? std::floor(number * 4)
                                 : number * 100);
  }
  return array(values, shape).astype(dtype);
}

// An array that broadcasts to `shape`, sometimes with steps, reversed or transposed.
Pair random_pair(Random& random, const Shape& shape, DType dtype) {
  Shape own;
  for (const std::int64_t length : shape) own.push_back(random() % 6 == 0 ? 1 : length);
  const std::uint64_t kind = random() % 4;
  if (kind == 0 && own.size() > 0) {  // a part of a longer array
    Shape longer = own;
    longer[own.size() - 1] = own[own.size() - 1] * 2 + 1;
    const NDArray x = random_values(random, longer, dtype), y = x.copy_to(gpu(0));
    const Slice part{.begin = 1, .end = 1 + 2 * own[own.size() - 1], .step = 2};
    return {x.slice(own.size() - 1, part), y.slice(own.size() - 1, part)};
  }
  if (kind == 1 && own.size() > 1) {
    Shape turned;
    Dims axes;
    for (int axis = own.size() - 1; axis >= 0; --axis) turned.push_back(own[axis]), axes.push_back(axis);
    const NDArray x = random_values(random, turned, dtype), y = x.copy_to(gpu(0));
    return {x.permuted(axes), y.permuted(axes)};
  }
  const NDArray x = random_values(random, own, dtype), y = x.copy_to(gpu(0));
  if (kind == 2 && own.size() > 0) return {x.slice(0, {.step = -1}), y.slice(0, {.step = -1})};
  return {x, y};
}

std::vector<std::byte> bytes_of(const NDArray& x) {
  const NDArray values = x.copy_to(cpu());
  values.wait();
  const auto* begin = values.data<const std::byte>();
  return {begin, begin + static_cast<std::size_t>(values.size()) * size_of(values.dtype())};
}

// Equal bits, but NaN of any bits: IEEE leaves them open, and x86 and GPUs differ.
bool same_bits(const NDArray& here, const NDArray& there) {
  if (here.dtype() != there.dtype() || here.shape() != there.shape() || there.device() != gpu(0))
    return false;
  if (!is_floating(here.dtype())) return bytes_of(here) == bytes_of(there);
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0) return false;
  }
  return true;
}

bool near(const NDArray& here, const NDArray& there) {
  const double most = here.dtype() == DType::f64 ? 1e-13 : here.dtype() == DType::f32 ? 1e-6 : 0.01;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::fabs(a[i] - b[i]) <= most * (1e-30 + std::fabs(a[i])) + 1e-40)) return false;
  }
  return true;
}

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

DType random_dtype(Random& random) { return kAllDTypes[random() % std::size(kAllDTypes)]; }

// Calls both; false if the CPU refuses the dtypes. Then the GPU has to refuse them with the same words.
template <class F> bool compare(const F& call, const Pair& a, bool exact) {
  NDArray here;
  std::string refusal;
  try {
    here = call(a.here);
  } catch (const InvalidArgument& error) {
    refusal = error.what();
  }
  if (!refusal.empty()) {
    CHECK_THROWS_WITH_AS(call(a.there), refusal.c_str(), InvalidArgument);
    return true;
  }
  const NDArray there = call(a.there);
  return exact ? same_bits(here, there) : near(here, there);
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

TEST_CASE("an operator without a kernel for GPUs says so") {
  const NDArray x = ones({3}, DType::f32, gpu(0));
  CHECK_THROWS_WITH_AS(cbrt(x), "cbrt has no cuda kernel in this build", Error);
  CHECK_THROWS_AS(add(x, ones({3})), InvalidArgument);  // arrays on two devices
}

}  // namespace
