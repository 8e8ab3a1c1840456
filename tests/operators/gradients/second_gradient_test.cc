// Gradients of gradients, by the option create_graph and by grad().
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;

namespace {

using Doubles = std::vector<double>;

NDArray leaf(std::initializer_list<double> values) {
  NDArray x = array<double>(values);
  set_requires_grad(x);
  return x;
}

NDArray random_leaf(const Shape& shape, std::uint64_t seed) {
  NDArray x = Generator(seed).normal(shape, 0, 0.5, DType::f64);
  set_requires_grad(x);
  return x;
}

double value(const NDArray& x) { return x.item<double>(); }

// x * x * x as one operator. Its gradient can be differentiated if `saves` is true: it then uses x with its
// tape.
NDArray cube(const NDArray& x, bool saves) {
  NDArray y;
  {
    NoGrad no_grad;
    y = x * x * x;
  }
  const NDArray kept = saves ? save_for_backward(x) : x.detach();
  if (recording({&x}))
    record("cube", y, {x}, {kept}, [kept](const NDArray& g) { return std::vector{g * kept * kept * 3}; });
  return y;
}

}  // namespace

TEST_CASE("derivatives of a polynomial, to the fourth") {
  const NDArray x = leaf({2, -1});
  NDArray y = power(x, 4);
  const std::vector<Doubles> expected = {{32, -4}, {48, 12}, {48, -24}, {24, 24}};
  for (const Doubles& derivative : expected) {
    y = grad({sum(y)}, {x}, {.create_graph = true})[0];
    CHECK(y.to_vector<double>() == derivative);
  }
  CHECK_FALSE(grad(x).defined());
}

TEST_CASE("backward with create_graph gives a leaf a gradient that can be computed with") {
  NDArray x = leaf({1, 2, 3});
  backward(sum(x * x * x), {.create_graph = true});
  const NDArray first = grad(x);
  CHECK(first.to_vector<double>() == Doubles{3, 12, 27});
  clear_grad(x);
  backward(sum(square(first)));  // the gradient of (3x^2)^2 is 2 * 3x^2 * 6x
  CHECK(grad(x).to_vector<double>() == Doubles{36, 288, 972});
  SUBCASE("a plain backward adds to it, and leaves what was handed out as it is") {
    clear_grad(x);
    backward(sum(square(x)), {.create_graph = true});
    const NDArray handed_out = grad(x);
    backward(sum(x));
    CHECK(grad(x).to_vector<double>() == Doubles{3, 5, 7});
    CHECK(handed_out.to_vector<double>() == Doubles{2, 4, 6});
    CHECK(requires_grad(grad(x)));  // the sum still depends on the recorded gradient
    CHECK(grad({sum(grad(x))}, {x})[0].to_vector<double>() == Doubles{2, 2, 2});
  }
}

TEST_CASE("a Hessian times a vector, two ways") {
  const NDArray x = random_leaf({6}, 1), v = Generator(2).normal({6}, 0, 1, DType::f64);
  const auto loss = [](const NDArray& at) { return sum(exp(at) * sin(at)) + square(sum(at * at)); };
  const NDArray first = grad({loss(x)}, {x}, {.create_graph = true})[0];
  const Doubles reverse = grad({first}, {x}, {.seeds = {v}})[0].to_vector<double>();
  const auto gradient_at = [&](double step) {
    NDArray moved = (x.detach() + v * step).copy();
    set_requires_grad(moved);
    return grad({loss(moved)}, {moved})[0];
  };
  const Doubles forward = ((gradient_at(1e-5) - gradient_at(-1e-5)) / 2e-5).to_vector<double>();
  for (std::size_t i = 0; i < 6; ++i) CHECK(reverse[i] == doctest::Approx(forward[i]).epsilon(1e-7));
}

TEST_CASE("a network is trained on a penalty of its gradient") {
  const NDArray x = Generator(3).normal({16, 3}, 0, 1, DType::f64);
  NDArray w = random_leaf({8, 3}, 4), b = random_leaf({8}, 5), u = random_leaf({1, 8}, 6);
  const auto penalty = [&] {
    NDArray at = x.detach().copy();
    set_requires_grad(at);
    const NDArray y = linear(tanh(linear(at, w, b)), u);
    const NDArray slope = grad({sum(y)}, {at}, {.create_graph = true})[0];
    return mean(square(norm(slope, 2, {1}) - 1));
  };
  const double before = value(penalty());
  for (int step = 0; step < 60; ++step) {
    backward(penalty());
    NoGrad no_grad;
    for (NDArray* parameter : {&w, &b, &u}) {
      if (grad(*parameter).defined()) *parameter -= grad(*parameter) * 0.2;
      clear_grad(*parameter);
    }
  }
  CHECK(value(penalty()) < before / 20);
}

TEST_CASE("second gradients of networks agree with difference quotients") {
  using In = const std::vector<NDArray>&;
  const NDArray x = Generator(7).normal({4, 3}, 0, 1, DType::f64),
                w = Generator(8).normal({5, 3}, 0, 1, DType::f64),
                b = Generator(9).normal({5}, 0, 1, DType::f64);
  testing::check_gradients([](In in) { return linear(in[0], in[1], in[2]); }, {x, w, b});
  testing::check_gradients([](In in) { return linear(in[0], in[1], in[2], {.relu = true}); }, {x, w, b});
  testing::check_gradients([](In in) { return softmax(sigmoid(linear(in[0], in[1], in[2])), 0); }, {x, w, b});
  testing::check_gradients([](In in) { return max(in[0] * in[0], {0}) / stddev(in[0], {0}); }, {x});
  testing::check_gradients([](In in) { return matmul(in[0], transpose(in[1])); }, {x, w});
  const NDArray image = Generator(10).normal({2, 2, 5, 5}, 0, 1, DType::f64),
                kernel = Generator(11).normal({2, 2, 3, 3}, 0, 1, DType::f64);
  testing::check_gradients(
      [](In in) {
        return exp(avg_pool2d(tanh(conv2d(in[0], in[1], {}, {.padding = {1, 1}})), {.stride = {1, 1}}));
      },
      {image, kernel});
  testing::check_gradients([](In in) { return exp(in[0][1].slice(0, {.step = 2})) * sin(in[0][2][0]); }, {x});
}

TEST_CASE("grad() of arrays that were computed, of unused ones, and of several outputs") {
  const NDArray x = leaf({3}), unused = leaf({1});
  const NDArray middle = x * x, y = middle * middle, z = middle * x;
  const std::vector<NDArray> both = grad({y, z}, {middle, x}, {.keep_tape = true});
  CHECK(value(both[0]) == 2 * 9 + 3);
  CHECK(value(both[1]) == 4 * 27 + 3 * 9);
  CHECK_THROWS_WITH_AS(grad({y}, {x, unused}, {.keep_tape = true}),
                       "grad: no output was computed from input 1; with allow_unused that is no error, and "
                       "its gradient undefined",
                       InvalidArgument);
  CHECK_FALSE(grad({y}, {x, unused}, {.keep_tape = true, .allow_unused = true})[1].defined());
  CHECK(value(grad({y}, {y}, {.keep_tape = true})[0]) == 1);
  CHECK(value(grad({x}, {x})[0]) == 1);
  CHECK_THROWS_WITH_AS(grad({y}, {array<double>({1})}),
                       "grad: input 0 requires no gradient; call set_requires_grad on x before the outputs "
                       "are computed from x, "
                       "outside of NoGrad",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(grad({y}, {x}, {.seeds = {y, y}}), "grad: 2 seeds for 1 outputs", InvalidArgument);
  CHECK_THROWS_AS(grad({}, {x}), InvalidArgument);
  CHECK_FALSE(grad(x).defined());
  CHECK(value(grad({y}, {x})[0]) == 108);  // without keep_tape, this frees the tape
  CHECK_THROWS_WITH_AS(grad({y}, {x}), doctest::Contains("was freed by an earlier backward()"), Error);
}

TEST_CASE("gradients of both kinds meet in a leaf, in every order and kind of pass") {
  using Floats = std::vector<float>;
  const NDArray rows = array<std::int64_t>({1, 1});
  const auto table = [] {
    NDArray t = ones({3, 1});
    set_requires_grad(t);
    return t;
  };
  const auto sparse = [&](const NDArray& t) { backward(sum(embedding(t, rows, {.sparse_grad = true}))); };
  const auto recorded = [](const NDArray& t) { backward(sum(t * t), {.create_graph = true}); };
  const NDArray first = table(), second = table();
  sparse(first);
  recorded(first);
  recorded(second);
  const NDArray handed_out = grad(second);
  sparse(second);
  for (const NDArray& t : {first, second}) {
    CHECK(grad(t).to_vector<float>() == Floats{2, 4, 2});
    CHECK_FALSE(row_sparse_grad(t).defined());
    CHECK(grad({sum(grad(t))}, {t}, {.keep_tape = true})[0].to_vector<float>() == Floats{2, 2, 2});
  }
  CHECK(handed_out.to_vector<float>() == Floats{2, 2, 2});
  const NDArray other = table(), seed = ones({3, 1});
  backward(first + other, {.seed = seed, .create_graph = true});
  sparse(first);
  CHECK(seed.to_vector<float>() == Floats(3, 1));
  CHECK(grad(other).to_vector<float>() == Floats(3, 1));
  backward(sum(first.slice(0, {.end = 1})));
  CHECK(grad(first).to_vector<float>() == Floats{4, 7, 3});
  for (const NDArray& t : {first, second, other}) clear_grad(t);
}

TEST_CASE("several threads add to one leaf") {
  const NDArray x = leaf({1, 2});
  constexpr int kThreads = 4, kPasses = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPasses; ++i) backward(sum(x * 3), {.create_graph = (t + i) % 2 == 0});
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(grad(x).to_vector<double>() == Doubles(2, 3.0 * kThreads * kPasses));
}

TEST_CASE("grad() looks at no operator that it does not need, and frees nothing when it refuses") {
  const NDArray x = leaf({1, 2}), w = leaf({3, 4});
  const NDArray y = sum(cube(w, false)) * sum(x * x);
  CHECK_THROWS_AS(grad({y}, {w}, {.create_graph = true}), Error);
  const NDArray loss = sum(cube(w, false)) + sum(x * x);
  CHECK(grad({loss}, {x}, {.create_graph = true})[0].to_vector<double>() == Doubles{2, 4});
  const NDArray unused = leaf({1});
  CHECK_THROWS_AS(grad({loss}, {x, unused}), InvalidArgument);
  CHECK(grad({loss}, {x})[0].to_vector<double>() == Doubles{2, 4});
}

TEST_CASE("what grad() returns is memory of its own") {
  const NDArray x = leaf({1, 2}), y = leaf({3, 4}), seed = array<double>({1, 1});
  std::vector<NDArray> gradients = grad({x + y}, {x, y}, {.seeds = {seed}});
  gradients[0] *= 5;
  CHECK(gradients[1].to_vector<double>() == Doubles{1, 1});
  CHECK(seed.to_vector<double>() == Doubles{1, 1});
  CHECK(gradients[0].to_vector<double>() == Doubles{5, 5});
}

TEST_CASE("an operator without a second gradient is named, and nothing has changed") {
  const NDArray x = random_leaf({4}, 1);
  const NDArray first =
      grad({digamma(exp(x))}, {x}, {.seeds = {ones({4}, DType::f64)}, .create_graph = true})[0];
  const NDArray loss = sum(square(first));
  CHECK_THROWS_WITH_AS(backward(loss, {.create_graph = true}),
                       "digamma: its gradient has no gradient, which create_graph asks for", Error);
  CHECK_FALSE(grad(x).defined());
  backward(loss);
  CHECK(grad(x).defined());
}

TEST_CASE(
    "an operator of a user that saves with save_for_backward() has second gradients; another has none") {
  const NDArray x = leaf({2});
  const NDArray first = grad({cube(x, true)}, {x}, {.create_graph = true})[0];
  CHECK(value(first) == 12);
  CHECK(value(grad({first}, {x})[0]) == 12);
  CHECK_THROWS_WITH_AS(grad({cube(x, false)}, {x}, {.create_graph = true}),
                       "cube: its gradient has no gradient, which create_graph asks for", Error);
  CHECK(value(grad({cube(x, false)}, {x})[0]) == 12);
}

TEST_CASE("the graph of gradients goes with its last handle") {
  std::weak_ptr<Storage> inner, result;
  {
    const NDArray x = leaf({1, 2});
    const NDArray y = exp(x), z = tanh(y * softmax(y));
    inner = y.storage();
    const NDArray first = grad({sum(z)}, {x}, {.create_graph = true})[0];
    result = first.storage();
    const NDArray second = grad({sum(first)}, {x}, {.create_graph = true})[0];
    CHECK(second.defined());
    x.engine().wait_all();
  }
  CHECK(inner.expired());
  CHECK(result.expired());
}

TEST_CASE("the first gradient of a norm at zeros is the same with and without create_graph") {
  for (const double p : {0.5, 1.5, 3.0, 4.0, -1.0, -2.0}) {
    for (const auto& values : {Doubles{0, 0}, Doubles{0, 2, -3}}) {
      CAPTURE(p);
      NDArray x = array(values, {static_cast<std::int64_t>(values.size())});
      set_requires_grad(x);
      const Doubles plain = grad({norm(x, p)}, {x})[0].to_vector<double>();
      const Doubles taped = grad({norm(x, p)}, {x}, {.create_graph = true})[0].to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] == 0) CHECK(plain[i] == 0);
        CHECK(taped[i] == doctest::Approx(plain[i]));
      }
    }
  }
}

TEST_CASE("gradients at NaN, zeros and infinities are the same with and without create_graph") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto check = [](const std::function<NDArray(const NDArray&)>& f, const NDArray& at,
                        const Doubles& expected) {
    for (const bool create_graph : {false, true}) {
      CAPTURE(create_graph);
      NDArray x = at.copy();
      set_requires_grad(x);
      const Doubles got = grad({sum(f(x))}, {x}, {.create_graph = create_graph})[0].to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        if (std::isnan(expected[i])) CHECK(std::isnan(got[i]));
        if (!std::isnan(expected[i])) CHECK(got[i] == expected[i]);
      }
    }
  };
  const auto product = [](const NDArray& x) { return prod(x, {-1}); };
  check([](const NDArray& x) { return relu(x); }, array<double>({nan, -1, 0, 2, inf}), {1, 0, 0, 1, 1});
  check(product, array<double>({inf, 1}), {1, inf});
  check(product, array<double>({inf, -2, 3}), {-6, inf, -inf});
  check(product, array<double>({inf, -inf, 2}), {-inf, inf, -inf});
  check(product, array<double>({inf, 0, 2}), {0, inf, nan});
  check(product, array<double>({0, 0, 2, 0, 5, 0}, {2, 3}), {0, 0, 0, 0, 0, 0});
  check(product, array<double>({nan, 2}), {2, nan});
  const auto products = [](const NDArray& x) { return cumprod(x, 0); };
  check(products, array<double>({inf, 1, 1, inf, 0, 0}, {3, 2}), {2, nan, nan, 1, inf, inf});
  check([](const NDArray& x) { return slice(cumprod(x), 0, {.end = 2}); }, array<double>({2, 3, inf}),
        {4, 2, 0});
  check([](const NDArray& x) { return cumprod(x); }, array<double>({3, nan, 2}), {nan, 9, nan});
}

TEST_CASE("the sign of a determinant has a gradient of 0 that can be differentiated") {
  const NDArray x = random_leaf({2, 3, 3}, 13);
  const auto first = [&](bool with_sign) {
    const std::vector<NDArray> y = slogdet(x);
    return grad({sum(with_sign ? y[0] * y[1] : y[0].detach() * y[1])}, {x}, {.create_graph = true})[0];
  };
  const NDArray with = first(true), without = first(false);
  CHECK(with.to_vector<double>() == without.to_vector<double>());
  CHECK(grad({sum(square(with))}, {x})[0].to_vector<double>() ==
        grad({sum(square(without))}, {x})[0].to_vector<double>());
  CHECK(grad({sum(slogdet(x)[0])}, {x}, {.create_graph = true})[0].to_vector<double>() == Doubles(18, 0));
}

TEST_CASE("linear without outputs has gradients of zeros") {
  const NDArray x = random_leaf({2, 1}, 1), weight = random_leaf({0, 1}, 2), bias = random_leaf({0}, 3);
  const auto gradients = grad({sum(linear(x, weight, bias))}, {x, weight, bias}, {.create_graph = true});
  CHECK(gradients[0].to_vector<double>() == Doubles{0, 0});
  CHECK(gradients[1].shape() == Shape{0, 1});
  CHECK(gradients[2].shape() == Shape{0});
}
