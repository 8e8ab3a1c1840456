// Products of matrices on a GPU, by Heddle's own kernel and through the code around cuBLASLt. Sums of small integers are exact in
// any order, so results and gradients have the CPU's bits. Sums of other numbers differ by their order: each of the k products and k - 1
// additions rounds by half an epsilon at most, so two orders differ by at most k * epsilon times the sum of the products' sizes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/matmul.h>
#include <heddle/products.h>
#include <heddle/shape_ops.h>

#include "compare.h"
#include "cuda/gemm.h"
#include "cuda/libraries/cublaslt.h"
#include "gpu/shared_library.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;
using cuda_kernels::choose_gemm;
using cuda_kernels::GemmWay;

namespace {

constexpr GemmWay kWays[] = {GemmWay::own, GemmWay::library};

// Integers from -3 to 3, in one of several layouts: dense, transposed, with steps, reversed.
Pair integers(Random& random, const Shape& shape, DType dtype, int layout = 0) {
  Shape memory = shape;
  const int last = shape.size() - 1;
  const bool turned = layout == 1 && last > 0;
  if (turned) std::swap(memory[last], memory[last - 1]);
  if (layout == 2) memory[last] = 2 * memory[last] + 1;
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(memory); ++i)
    values.push_back(static_cast<double>(random() % 7) - 3);
  const NDArray x = array(values, memory).astype(dtype), y = x.copy_to(gpu(0));
  if (turned) {
    Dims axes;
    for (int axis = 0; axis <= last; ++axis) axes.push_back(axis);
    std::swap(axes[last], axes[last - 1]);
    return {x.permuted(axes), y.permuted(axes)};
  }
  const Slice part =
      layout == 2 ? Slice{.begin = 1, .end = 1 + 2 * shape[last], .step = 2} : Slice{.step = -1};
  return layout < 2 ? Pair{x, y} : Pair{x.slice(last, part), y.slice(last, part)};
}

Pair fractions(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63);
  const NDArray x = array(values, shape).astype(dtype);
  return {x, x.copy_to(gpu(0))};
}

// Whether |here - there| is within `terms` roundings of the dtype times `sizes`, the sums of the products' sizes.
bool within(const NDArray& here, const NDArray& there, const NDArray& sizes, double terms) {
  const double epsilon = here.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>(), c = sizes.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= terms * epsilon * c[i])) return false;
  }
  return a.size() == b.size() && there.device() == gpu(0);
}

struct Shapes {
  Shape a, b;
};
const std::vector<Shapes> kShapes = {{{3, 4}, {4, 5}},
                                     {{1, 1}, {1, 1}},
                                     {{65, 33}, {33, 67}},
                                     {{7}, {7}},
                                     {{7}, {7, 3}},
                                     {{5, 7}, {7}},
                                     {{2, 3, 4}, {4, 5}},
                                     {{2, 3, 4}, {2, 4, 5}},
                                     {{3, 4}, {6, 4, 2}},
                                     {{2, 1, 3, 4}, {3, 4, 2}},
                                     {{2, 3, 2, 4}, {2, 1, 4, 3}},
                                     {{0, 4}, {4, 3}},
                                     {{3, 0}, {0, 4}},
                                     {{2, 3, 0}, {0, 4}},
                                     {{0, 3, 4}, {4, 2}},
                                     {{3, 4}, {5, 6}},
                                     {{1, 70}, {70, 1}},
                                     {{20, 1, 5, 2}, {3, 2, 5}}};

TEST_CASE("matmul on a GPU has the values of the CPU") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      for (std::size_t seed = 0; seed < 4; ++seed) {
        Random random(seed * 100 + i);
        const DType dtype = kAllDTypes[(i * 4 + seed + 3) % std::size(kAllDTypes)];
        const Pair a = integers(random, kShapes[i].a, dtype, static_cast<int>(random() % 4)),
                   b = integers(random, kShapes[i].b, dtype, static_cast<int>(random() % 4));
        CAPTURE(static_cast<int>(way));
        CAPTURE(i);
        CAPTURE(name_of(dtype));
        const auto call = [&](const NDArray& x) { return matmul(x, x.device() == cpu() ? b.here : b.there); };
        CHECK(compare(call, a, true));
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("every dtype is multiplied on a GPU") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (const DType dtype : kAllDTypes) {
      for (const int layout : {0, 1}) {
        Random random(static_cast<std::uint64_t>(layout));
        CAPTURE(name_of(dtype));
        const Pair a = integers(random, {9, 20}, dtype, layout),
                   b = integers(random, {20, 6}, dtype, 1 - layout);
        CHECK(same_bits(matmul(a.here, b.here), matmul(a.there, b.there)));
        CHECK(same_bits(matmul(a.here, b.here.astype(DType::f64)),
                        matmul(a.there, b.there.astype(DType::f64))));
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("sums of many products, and many results, are divided into parts and tiles") {
  Random random(1);
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i16, DType::u64, DType::boolean}) {
      CAPTURE(name_of(dtype));
      const Pair a = integers(random, {3, 4100}, dtype), b = integers(random, {4100, 2}, dtype, 1);
      CHECK(same_bits(matmul(a.here, b.here), matmul(a.there, b.there)));
    }
    const Pair a = integers(random, {32, 129, 5}, DType::f32), b = integers(random, {32, 130, 5}, DType::f32);
    const Dims turned{0, 2, 1};
    CHECK(same_bits(matmul(a.here, b.here.permuted(turned)), matmul(a.there, b.there.permuted(turned))));
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("sums of fractions are within the roundings of their terms") {
  Random random(2);
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const std::int64_t k : {10, 1000, 3000}) {
        const Pair a = fractions(random, {4, k}, dtype), b = fractions(random, {k, 5}, dtype);
        const NDArray sizes = matmul(abs(a.here.astype(DType::f64)), abs(b.here.astype(DType::f64)));
        CAPTURE(k);
        CHECK(within(matmul(a.here, b.here), matmul(a.there, b.there), sizes, static_cast<double>(k)));
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("linear on a GPU has the values of the CPU") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (int seed = 0; seed < 8; ++seed) {
        Random random(static_cast<std::uint64_t>(seed));
        const std::int64_t in = seed == 7 ? 0 : 1 + static_cast<std::int64_t>(random() % 80),
                           out = 1 + static_cast<std::int64_t>(random() % 70);
        const Pair x = integers(random, {2, 5, in}, dtype, seed % 4),
                   weight = integers(random, {out, in}, dtype), bias = integers(random, {out}, dtype);
        CAPTURE(name_of(dtype));
        CAPTURE(seed);
        const bool relu = seed % 2 != 0, with_bias = seed % 3 != 0;
        const auto call = [&](const NDArray& y) {
          const bool here = y.device() == cpu();
          return linear(y, here ? weight.here : weight.there,
                        !with_bias ? NDArray()
                        : here     ? bias.here
                                   : bias.there,
                        {.relu = relu});
        };
        CHECK(compare(call, x, true));
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

// max(x, 0) of NaN is NaN, also where a library computes the relu.
TEST_CASE("relu after linear keeps NaN on a GPU") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      CAPTURE(name_of(dtype));
      for (const std::int64_t size : {1, 3, 16, 64}) {
        Random random(static_cast<std::uint64_t>(size));
        const Pair x = integers(random, {size, size}, dtype), weight = integers(random, {size, size}, dtype),
                   bias = integers(random, {size}, dtype);
        for (const NDArray& one : {x.here, x.there})
          one.slice(0, {.begin = size / 2, .end = size / 2 + 1}).fill(NAN);
        for (const bool with_bias : {false, true}) {
          const NDArray here = linear(x.here, weight.here, with_bias ? bias.here : NDArray(), {.relu = true}),
                        there =
                            linear(x.there, weight.there, with_bias ? bias.there : NDArray(), {.relu = true});
          CHECK(std::isnan(here[size / 2].astype(DType::f64).to_vector<double>()[0]));
          CHECK(same_bits(here, there));
        }
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

using Leaves = std::vector<NDArray>;
// The gradients of what `call` makes of the leaves, on each device.
void compare_gradients(const std::vector<Pair>& leaves, const std::function<NDArray(const Leaves&)>& call) {
  Leaves here, there;
  for (const Pair& leaf : leaves) {
    here.push_back(leaf.here.copy());
    there.push_back(leaf.there.copy());
    here.back().set_requires_grad();
    there.back().set_requires_grad();
  }
  const NDArray y = call(here), z = call(there);
  CHECK(same_bits(y.detach(), z.detach()));
  Random random(3);
  const NDArray g = integers(random, y.shape(), y.dtype()).here;
  y.backward(g);
  z.backward(g.copy_to(gpu(0)));
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(here[i].grad(), there[i].grad()));
  }
}

TEST_CASE("gradients of products on a GPU have the values of the CPU") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    Random random(4);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      CAPTURE(name_of(dtype));
      for (const std::size_t i : {0, 3, 4, 5, 6, 7, 8, 9, 10, 17}) {
        CAPTURE(i);
        compare_gradients({integers(random, kShapes[i].a, dtype), integers(random, kShapes[i].b, dtype)},
                          [](const Leaves& in) { return matmul(in[0], in[1]); });
      }
      for (const bool relu : {false, true}) {
        compare_gradients(
            {integers(random, {70, 9}, dtype), integers(random, {4, 9}, dtype), integers(random, {4}, dtype)},
            [=](const Leaves& in) { return linear(in[0], in[1], in[2], {.relu = relu}); });
      }
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("mixed precision: halves are summed with a bias of f32, and gradients of f32 are not rounded") {
  for (const GemmWay way : kWays) {
    choose_gemm(way);
    Random random(5);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      compare_gradients({integers(random, {130, 9}, DType::f32), integers(random, {4, 9}, DType::f32),
                         integers(random, {4}, DType::f32)},
                        [=](const Leaves& in) {
                          const Autocast mixed(dtype);
                          return linear(in[0], in[1], in[2] / 8, {.relu = true});
                        });
    }
  }
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("the gradient of a bias on a GPU has the CPU's bits") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const std::int64_t rows : {1, 63, 64, 65, 129, 640, 1000, 4133}) {
      Random random(static_cast<std::uint64_t>(rows));
      const std::int64_t columns = rows == 640 ? 19 : 3;
      const Pair g = fractions(random, {rows, columns}, dtype);
      const auto gradient = [&](const NDArray& of_y) {
        NDArray bias = zeros({columns}, dtype, of_y.device());
        bias.set_requires_grad();
        linear(zeros({rows, 1}, dtype, of_y.device()), zeros({columns, 1}, dtype, of_y.device()), bias)
            .backward(of_y);
        return bias.grad();
      };
      CAPTURE(name_of(dtype));
      CAPTURE(rows);
      CHECK(same_bits(gradient(g.here), gradient(g.there)));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("sums of products along named axes are computed on the GPU") {
  Random random(6);
  const Pair a = integers(random, {3, 4, 5}, DType::f32), b = integers(random, {4, 3, 6}, DType::f32);
  const Pair halves = integers(random, {5, 7}, DType::bf16);
  const auto both = [&](const auto& call) {
    CHECK(same_bits(call(a.here, b.here, halves.here), call(a.there, b.there, halves.there)));
  };
  using A = const NDArray&;
  both([](A x, A y, A) { return einsum("ijk,jil->kl", {x, y}); });
  both([](A x, A y, A) { return einsum("ijk,jil->lik", {x, y}); });
  both([](A x, A y, A z) { return einsum("ijk,jil,km->lm", {x, y, z}); });
  both([](A x, A y, A) { return tensordot(x, y, {0, 1}, {1, 0}); });
  both([](A x, A, A z) { return dot(x, z.astype(DType::f32)); });
  both([](A x, A, A z) { return inner(x, transpose(z).astype(DType::f32)); });
  both([](A x, A y, A) { return kron(x, y); });
  both([](A, A, A z) { return einsum("ij,kj->ik", {z, z}); });
  CHECK(problems() == "");
}

TEST_CASE("plans of the library are kept for each form of product") {
  choose_gemm(GemmWay::library);
  Random random(7);
  const Pair a = integers(random, {8, 72}, DType::f32), b = integers(random, {72, 11}, DType::f32);
  CHECK(same_bits(matmul(a.here, b.here), matmul(a.there, b.there)));
  const auto before = cuda_kernels::cublaslt_stats();
  const std::uint64_t waits = host_waits();
  NDArray y;
  for (int i = 0; i < 5; ++i) y = matmul(a.there, b.there);
  CHECK(host_waits() == waits);
  CHECK(same_bits(matmul(a.here, b.here), y));
  const auto after = cuda_kernels::cublaslt_stats();
  CHECK(after.made == before.made);
  CHECK(after.plans == before.plans);
  if (before.plans > 0) CHECK(after.called == before.called + 5);
  choose_gemm(GemmWay::both);
  CHECK(problems() == "");
}

TEST_CASE("a library that is not found, or lacks a function, is named") {
  const detail::SharedLibrary none({"libheddle_has_no_such.so.1", "libnor_this.so"});
  CHECK(!none.is_open());
  CHECK(none.missing().find("libheddle_has_no_such.so.1") != std::string::npos);
  CHECK(none.missing().find("libnor_this.so") != std::string::npos);
  const detail::SharedLibrary c({"libheddle_has_no_such.so.1", "libc.so.6"});
  REQUIRE(c.is_open());
  std::size_t (*length)(const char*) = nullptr;
  c.find("strlen", length);
  CHECK(length("abc") == 3);
  CHECK_THROWS_WITH_AS(c.find("cublasLtCreate", length), "libc.so.6: has no function cublasLtCreate", Error);
}

}  // namespace
