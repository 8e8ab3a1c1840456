// Mixed precision: values and gradients of products in bf16 and f16 against f32, of the rounded operands in f64, with bounds made
// of the dtypes' digits.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

constexpr DType kHalves[] = {DType::bf16, DType::f16};

// Half the distance of 1 and the next number: the largest relative error of one rounding.
double rounding(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-11; }

std::vector<double> numbers(const NDArray& array) { return array.astype(DType::f64).to_vector<double>(); }

double largest(const NDArray& array) {
  double most = 0;
  for (const double x : numbers(array)) most = std::max(most, std::fabs(x));
  return most;
}

// Each element differs by at most `bound` times the largest element of `wanted`.
void check_near(const NDArray& got, const NDArray& wanted, double bound) {
  REQUIRE(got.shape() == wanted.shape());
  const std::vector<double> a = numbers(got), b = numbers(wanted);
  const double most = std::max(largest(wanted), 1e-30);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    worst = std::max(worst, std::fabs(a[i] - b[i]) / most);
  }
  CHECK(worst <= bound);
}

NDArray rounded(const NDArray& x, DType dtype) { return x.astype(dtype).astype(DType::f64); }

NDArray leaf(const NDArray& values) {
  NDArray array = values.copy();
  set_requires_grad(array);
  return array;
}

using Arrays = std::vector<NDArray>;
using Function = std::function<NDArray(const Arrays&)>;

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  Function function;
};

std::vector<Case> cases() {
  const auto conv = [](const ConvOptions& options) {
    return [options](const Arrays& a) { return conv2d(a[0], a[1], a[2], options); };
  };
  return {
      {"matmul", {{70, 130}, {130, 50}}, [](const Arrays& a) { return matmul(a[0], a[1]); }},
      {"small matmul", {{3, 5}, {5, 2}}, [](const Arrays& a) { return matmul(a[0], a[1]); }},
      {"transposed",
       {{130, 70}, {50, 130}},
       [](const Arrays& a) { return matmul(transpose(a[0]), transpose(a[1])); }},
      {"batches", {{4, 33, 65}, {65, 40}}, [](const Arrays& a) { return matmul(a[0], a[1]); }},
      {"row", {{300}, {300, 40}}, [](const Arrays& a) { return matmul(a[0], a[1]); }},
      {"linear", {{5, 21, 80}, {48, 80}, {48}}, [](const Arrays& a) { return linear(a[0], a[1], a[2]); }},
      {"linear relu",
       {{90, 80}, {64, 80}, {64}},
       [](const Arrays& a) { return linear(a[0], a[1], a[2], {.relu = true}); }},
      {"conv2d", {{3, 16, 9, 11}, {32, 16, 3, 3}, {32}}, conv({.padding = 1})},
      {"conv2d relu", {{3, 16, 9, 11}, {32, 16, 3, 3}, {32}}, conv({.padding = 1, .relu = true})},
      {"conv2d odd", {{5, 3, 10, 7}, {10, 3, 3, 2}, {10}}, conv({.stride = 2, .padding = 1, .relu = true})},
      {"conv2d groups", {{2, 32, 6, 6}, {32, 1, 3, 3}, {32}}, conv({.padding = 1, .groups = 32})},
      {"conv1d",
       {{3, 8, 40}, {16, 8, 5}, {16}},
       [](const Arrays& a) { return conv1d(a[0], a[1], a[2], {.padding = 2, .relu = true}); }},
      {"conv3d",
       {{2, 4, 5, 6, 7}, {16, 4, 3, 3, 3}, {16}},
       [](const Arrays& a) { return conv3d(a[0], a[1], a[2], {.padding = 1}); }},
      {"conv_transpose2d",
       {{2, 16, 6, 5}, {16, 8, 3, 3}, {8}},
       [](const Arrays& a) {
         return conv_transpose2d(a[0], a[1], a[2], {.stride = 2, .output_padding = 1});
       }},
      {"einsum",
       {{6, 20, 30}, {6, 30, 10}},
       [](const Arrays& a) {
         return einsum("bij,bjk->bik", {a[0], a[1]});
       }},
      {"attention",
       {{2, 2, 70, 32}, {2, 2, 90, 32}, {2, 2, 90, 32}},
       [](const Arrays& a) { return attention(a[0], a[1], a[2]); }},
      {"lstm",
       {{7, 5, 24}, {4 * 40, 24}, {4 * 40, 40}, {4 * 40}},
       [](const Arrays& a) {
         return lstm(a[0], {a[1], a[2], a[3]})[0];
       }},
      {"gru",
       {{6, 5, 24}, {3 * 33, 24}, {3 * 33, 33}, {3 * 33}},
       [](const Arrays& a) {
         return gru(a[0], {a[1], a[2], a[3]})[0];
       }},
  };
}

// Roundings that follow each other between operands and results: of recurrent networks and attention one at each step.
double roundings(const std::string& name) {
  if (name == "lstm" || name == "gru") return 8;
  return name == "attention" ? 6 : 2;
}

Arrays drawn(const Case& one, double scale) {
  Generator generator(7);
  Arrays all;
  for (const Shape& shape : one.shapes) all.push_back(generator.normal(shape) * scale);
  return all;
}

}  // namespace

TEST_CASE("autocast: products of f32 arrays are those of rounded ones, and gradients are f32") {
  for (const DType dtype : kHalves) {
    for (const Case& one : cases()) {
      CAPTURE(one.name);
      CAPTURE(name_of(dtype));
      const Arrays values = drawn(one, 0.3);
      Arrays inputs, exact;
      for (const NDArray& value : values) {
        inputs.push_back(leaf(value));
        exact.push_back(leaf(value.ndim() == 1 && value.shape()[0] != 300 ? value.astype(DType::f64)
                                                                          : rounded(value, dtype)));
      }
      NDArray y;
      {
        const Autocast autocast(dtype);
        y = one.function(inputs);
      }
      CHECK(y.dtype() == dtype);
      const NDArray wanted = one.function(exact);
      const double bound = roundings(one.name) * rounding(dtype);
      check_near(y, wanted, bound);
      const NDArray seed = Generator(3).normal(y.shape()).astype(dtype);
      backward(y, {.seed = seed});
      // The relu of a sum near 0 may be that of another sign; there the gradient is compared with that of the same mask.
      const bool relu = std::string(one.name).find("relu") != std::string::npos ||
                        std::strcmp(one.name, "conv2d odd") == 0 || std::strcmp(one.name, "conv1d") == 0;
      backward(wanted, {.seed = seed.astype(DType::f64)});
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(i);
        const NDArray g = grad(inputs[i]);
        CHECK(g.dtype() == DType::f32);
        check_near(g, grad(exact[i]), relu ? 0.05 : 2 * bound);
      }
    }
  }
}

TEST_CASE("autocast: gradients of f32 parameters are not rounded to halves") {
  const NDArray x = Generator(1).normal({200, 40}), w = leaf(Generator(2).normal({40, 30}));
  NDArray y;
  {
    const Autocast autocast(DType::bf16);
    y = matmul(x, w);
  }
  backward(y, {.seed = ones(y.shape(), DType::bf16)});
  const NDArray g = grad(w), wanted = matmul(transpose(rounded(x, DType::bf16)), ones({200, 30}, DType::f64));
  check_near(g, wanted, 1e-6);
  CHECK(largest(g - g.astype(DType::bf16).astype(DType::f32)) > 0);
}

TEST_CASE("autocast: what needs range is f32, elementwise operators keep bf16, and mixed ones give f32") {
  const NDArray x = Generator(1).normal({8, 6}).astype(DType::bf16);
  const NDArray labels = array<std::int64_t>({0, 1, 2, 3, 4, 5, 0, 1});
  const std::vector<std::pair<const char*, std::function<NDArray()>>> wide = {
      {"softmax", [&] { return softmax(x); }},
      {"log_softmax", [&] { return log_softmax(x); }},
      {"cross_entropy", [&] { return cross_entropy(x, labels); }},
      {"mse_loss", [&] { return mse_loss(x, x); }},
      {"sum", [&] { return sum(x); }},
      {"mean", [&] { return mean(x, {0}); }},
      {"var", [&] { return var(x); }},
      {"logsumexp", [&] { return logsumexp(x); }},
      {"norm", [&] { return norm(x); }},
      {"cumsum", [&] { return cumsum(x); }},
  };
  for (const auto& [name, call] : wide) {
    CAPTURE(name);
    CHECK(call().dtype() == DType::bf16);
    const Autocast autocast(DType::bf16);
    const NDArray y = call();
    CHECK(y.dtype() == DType::f32);
  }
  const Autocast autocast(DType::bf16);
  const NDArray weight = ones({6});
  CHECK(relu(x).dtype() == DType::bf16);
  CHECK((x + x).dtype() == DType::bf16);
  CHECK((x + weight).dtype() == DType::f32);
  CHECK(layer_norm(x, weight, weight).dtype() == DType::bf16);
  const auto batch = batch_norm(x, weight, weight);
  CHECK(batch[0].dtype() == DType::bf16);
  CHECK(batch[1].dtype() == DType::f32);
  CHECK(matmul(ones({2, 2}, DType::f64), ones({2, 2})).dtype() == DType::f64);
  CHECK(matmul(ones({2, 2}, DType::i32), ones({2, 2}, DType::i32)).dtype() == DType::i32);
  CHECK(matmul(ones({2, 2}, DType::i32), ones({2, 2})).dtype() == DType::f64);
}

TEST_CASE("norms of halves have f32 statistics, weights and gradients of weights") {
  for (const DType dtype : kHalves) {
    const NDArray x = leaf((Generator(1).normal({6, 8, 5, 5}) * 3 + 100).astype(dtype)),
                  exact = leaf(x.detach().astype(DType::f64));
    const NDArray weight = leaf(Generator(2).normal({8})), bias = leaf(Generator(3).normal({8}));
    const NDArray weight64 = leaf(weight.detach().astype(DType::f64)),
                  bias64 = leaf(bias.detach().astype(DType::f64));
    using Norm = std::function<NDArray(const NDArray&, const NDArray&, const NDArray&)>;
    const Norm norms[] = {
        [](const NDArray& a, const NDArray& w, const NDArray& b) { return batch_norm(a, w, b)[0]; },
        [](const NDArray& a, const NDArray& w, const NDArray& b) { return group_norm(a, 2, w, b); },
        [](const NDArray& a, const NDArray& w, const NDArray& b) {
          return layer_norm(transpose(a, {0, 2, 3, 1}), w, b);
        },
        [](const NDArray& a, const NDArray& w, const NDArray& b) {
          return rms_norm(transpose(a, {0, 2, 3, 1}), w) + b.astype(a.dtype());
        }};
    for (const Norm& norm : norms) {
      const NDArray y = norm(x, weight, bias), wanted = norm(exact, weight64, bias64);
      CHECK(y.dtype() == dtype);
      check_near(y, wanted, 2 * rounding(dtype));
      const NDArray seed = Generator(4).normal(y.shape()).astype(dtype);
      const auto got = grad({y}, {x, weight}, {.seeds = {seed}}),
                 right = grad({wanted}, {exact, weight64}, {.seeds = {seed.astype(DType::f64)}});
      CHECK(got[0].dtype() == dtype);
      CHECK(got[1].dtype() == DType::f32);
      check_near(got[0], right[0], 4 * rounding(dtype));
      check_near(got[1], right[1], 1e-4);
    }
  }
}

TEST_CASE("poolings of halves are those of f32, rounded once") {
  for (const DType dtype : kHalves) {
    const NDArray x = leaf(Generator(1).normal({2, 3, 9, 12}).astype(dtype)),
                  wide = leaf(x.detach().astype(DType::f32));
    const std::vector<std::function<NDArray(const NDArray&)>> pools = {
        [](const NDArray& a) { return max_pool2d(a, {.kernel = 2}); },
        [](const NDArray& a) { return max_pool2d(a, {.kernel = 3, .stride = 2, .padding = 1}); },
        [](const NDArray& a) { return avg_pool2d(a, {.kernel = 3, .stride = 1}); },
        [](const NDArray& a) { return avg_pool2d(a, {.kernel = 2}); },
        [](const NDArray& a) {
          return adaptive_avg_pool2d(a, {1, 1});
        }};
    for (std::size_t i = 0; i < pools.size(); ++i) {
      CAPTURE(i);
      const NDArray y = pools[i](x), wanted = pools[i](wide);
      CHECK(y.dtype() == dtype);
      CHECK(numbers(y) == numbers(wanted.astype(dtype)));
      const NDArray seed = Generator(4).normal(y.shape()).astype(dtype);
      const auto got = grad({y}, {x}, {.seeds = {seed}}),
                 right = grad({wanted}, {wide}, {.seeds = {seed.astype(DType::f32)}});
      check_near(got[0], right[0], i == 2 ? 2 * rounding(dtype) : rounding(dtype));
    }
  }
}

TEST_CASE("autocast: second gradients") {
  for (const Case& one : cases()) {
    const std::string name = one.name;
    if (name != "matmul" && name != "linear" && name != "conv2d" && name != "conv_transpose2d" &&
        name != "attention")
      continue;
    CAPTURE(name);
    const auto penalty = [&](bool autocast_on, DType dtype) {
      Arrays inputs;
      for (const NDArray& value : drawn(one, 0.3)) inputs.push_back(leaf(value.astype(dtype)));
      NDArray y;
      if (autocast_on) {
        const Autocast autocast(DType::bf16);
        y = one.function(inputs);
      } else {
        y = one.function(inputs);
      }
      const NDArray loss = sum(square(cast(y, dtype)));
      const auto first = grad({loss}, {inputs[0], inputs[1]}, {.create_graph = true});
      CHECK(first[0].dtype() == dtype);
      backward(sum(square(first[0])) + sum(square(first[1])));
      return std::vector<NDArray>{grad(inputs[0]), grad(inputs[1])};
    };
    const auto got = penalty(true, DType::f32), wanted = penalty(false, DType::f64);
    for (std::size_t i = 0; i < 2; ++i) check_near(got[i], wanted[i], 0.06);
  }
}

TEST_CASE("autocast: same bits with every number of workers and scheduler") {
  const auto program = [] {
    std::vector<std::vector<float>> all;
    for (const Case& one : cases()) {
      Arrays inputs;
      for (const NDArray& value : drawn(one, 0.3)) inputs.push_back(leaf(value));
      NDArray y;
      {
        const Autocast autocast(DType::bf16);
        y = one.function(inputs);
      }
      backward(y, {.seed = ones(y.shape(), y.dtype())});
      all.push_back(y.astype(DType::f32).to_vector<float>());
      for (const NDArray& input : inputs) all.push_back(grad(input).to_vector<float>());
    }
    return all;
  };
  const auto on = [&](EngineOptions options) {
    Engine engine(options);
    const EngineScope scope(engine);
    return program();
  };
  const auto wanted = on({.workers = 1});
  for (const EngineOptions& options : {EngineOptions{.workers = 2}, EngineOptions{.workers = 4},
                                       EngineOptions{.scheduler = Scheduler::naive},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 3}}) {
    const auto got = on(options);
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(std::memcmp(got[i].data(), wanted[i].data(), got[i].size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("autocast: scopes nest, and belong to a thread") {
  CHECK(!Autocast::active());
  const NDArray x = ones({4, 4});
  {
    const Autocast outer(DType::bf16);
    CHECK(Autocast::dtype() == DType::bf16);
    CHECK(matmul(x, x).dtype() == DType::bf16);
    {
      const Autocast inner(DType::f32);
      CHECK(!Autocast::active());
      CHECK(matmul(x, x).dtype() == DType::f32);
      CHECK(linear(x.astype(DType::bf16), x, {}).dtype() == DType::f32);
    }
    const Autocast f16(DType::f16);
    CHECK(matmul(x, x).dtype() == DType::f16);
  }
  CHECK(matmul(x, x).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(linear(x.astype(DType::bf16), x, {}), doctest::Contains("wanted one dtype"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(Autocast(DType::f64), "Autocast: dtype is f64; want bf16, f16 or f32",
                       InvalidArgument);
}

TEST_CASE("autocast: a parameter is cast once in a scope, and again after it changed") {
  NDArray w = leaf(ones({32, 32}));
  const NDArray x = ones({1, 32});
  const Autocast autocast(DType::bf16);
  CHECK(matmul(x, w).astype(DType::f32).to_vector<float>()[0] == 32);
  {
    const NoGrad no_grad;
    w.assign(full({32, 32}, 2));
  }
  CHECK(matmul(x, w).astype(DType::f32).to_vector<float>()[0] == 64);
  CHECK(matmul(x, transpose(w.slice(0, {0, 16}))).astype(DType::f32).to_vector<float>().size() == 16);
}

TEST_CASE("products of bf16 keep inf and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  NDArray x = ones({64, 64}), w = ones({64, 64});
  x.slice(0, {0, 1}).fill(inf);
  x.slice(0, {1, 2}).fill(std::numeric_limits<double>::quiet_NaN());
  const Autocast autocast(DType::bf16);
  const std::vector<double> y = numbers(linear(x, w, {}, {.relu = true}));
  CHECK(y[0] == inf);
  CHECK(std::isnan(y[64]));
  CHECK(y[128] == 64);
  const std::vector<double> image = numbers(
      conv2d(reshape(x, {1, 64, 8, 8}), reshape(w.slice(0, {0, 16}), {16, 64, 1, 1}), {}, {.relu = true}));
  CHECK(std::isnan(image[0]));
}

TEST_CASE("autocast: a cast of a weight that was poisoned is made anew once the error is cleared") {
  NDArray w = ones({4, 4});
  const NDArray x = ones({2, 4});
  set_requires_grad(w);
  const Autocast autocast(DType::bf16);
  w.detach().assign(take(ones({1, 4}), full({4}, 5, DType::i64)));
  CHECK_THROWS_AS(matmul(x, w).wait(), InvalidArgument);
  w.engine().clear_error(w.var());
  CHECK_NOTHROW(matmul(x, w).wait());
}

TEST_CASE("autocast: a scope keeps no leaves that are gone, and their casts not for long") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const Autocast autocast(DType::bf16);
  const NDArray x = ones({4, 64});
  std::size_t before = 0;
  for (int i = 0; i < 200; ++i) {
    NDArray w = ones({64, 64});
    set_requires_grad(w);
    matmul(x, w).wait();
    engine.wait_all();
    if (i == 50) before = cpu_allocator_stats().in_use;
  }
  CHECK(cpu_allocator_stats().in_use <= before + 32 * 64 * 64 * 2);
}

}  // namespace heddle
