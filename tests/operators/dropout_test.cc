#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <message_of.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

namespace heddle {

namespace {

using Drop = NDArray (*)(const NDArray&, double, Generator&, bool, Where);
const std::vector<std::pair<const char*, Drop>> kRandomOps{{"dropout", dropout},
                                                           {"channel_dropout", channel_dropout},
                                                           {"alpha_dropout", alpha_dropout},
                                                           {"feature_alpha_dropout", feature_alpha_dropout},
                                                           {"gaussian_dropout", gaussian_dropout},
                                                           {"gaussian_noise", gaussian_noise}};

}  // namespace

TEST_CASE("dropout zeroes a share p and scales the rest up") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Generator generator(1);
    const auto y =
        dropout(ones({100, 100}, dtype), 0.25, generator, true).astype(DType::f64).to_vector<double>();
    const auto zeros_seen = std::count(y.begin(), y.end(), 0.0);
    CHECK(zeros_seen > 2300);
    CHECK(zeros_seen < 2700);
    CHECK(std::all_of(y.begin(), y.end(), [](double v) { return v == 0 || v == doctest::Approx(4.0 / 3); }));
  }
}

TEST_CASE("dropout's gradient passes where its value did") {
  Generator generator(2);
  NDArray x = ones({50, 3}, DType::f64);
  set_requires_grad(x);
  const NDArray y = dropout(x, 0.5, generator, true);
  backward(sum(y * 3));
  std::vector<double> expected = y.to_vector<double>();
  for (double& value : expected) value *= 3;
  CHECK(grad(x).to_vector<double>() == expected);
}

TEST_CASE("dropout outside training, and at both ends") {
  Generator generator(3);
  const NDArray x = ones({4});
  CHECK(dropout(x, 0.5, generator, false).storage() == x.storage());
  CHECK(dropout(x, 0, generator, true).storage() == x.storage());
  CHECK(generator.position() == 0);
  CHECK(dropout(x, 1, generator, true).to_vector<float>() == std::vector<float>(4, 0.0f));
  CHECK(dropout(zeros({0, 3}), 0.5, generator, true).shape() == Shape{0, 3});
}

TEST_CASE("equal generators drop equal elements") {
  Generator a(4), b(4);
  const NDArray x = ones({1000});
  const auto first = dropout(x, 0.5, a, true).to_vector<float>();
  CHECK(first == dropout(x, 0.5, b, true).to_vector<float>());
  CHECK(first != dropout(x, 0.5, a, true).to_vector<float>());
}

TEST_CASE("dropout refuses what it cannot do, at the call") {
  Generator generator(5);
  CHECK_THROWS_WITH_AS(dropout(ones({2}), 1.5, generator, true), "dropout: p is 1.5; wanted 0 to 1",
                       InvalidArgument);
  CHECK_THROWS_AS(dropout(ones({2}, DType::i32), 0.5, generator, true), InvalidArgument);
}

TEST_CASE("channels are dropped as a whole") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    Generator generator(6);
    const NDArray x = ones({40, 50, 3, 2}, dtype);
    const auto y = channel_dropout(x, 0.25, generator, true).astype(DType::f64).to_vector<double>();
    int dropped = 0;
    for (std::size_t channel = 0; channel < 2000; ++channel) {
      const double first = y[channel * 6];
      dropped += first == 0;
      CHECK((first == 0 || first == doctest::Approx(4.0 / 3).epsilon(1e-3)));
      for (std::size_t i = 1; i < 6; ++i) CHECK(y[channel * 6 + i] == first);
    }
    CHECK(dropped > 420);
    CHECK(dropped < 580);
  }
  Generator generator(7);
  CHECK(channel_dropout(zeros({0, 3, 2}), 0.5, generator, true).shape() == Shape{0, 3, 2});
  CHECK(channel_dropout(zeros({2, 3, 0}), 0.5, generator, true).shape() == Shape{2, 3, 0});
  CHECK(channel_dropout(ones({2, 3}), 0.5, generator, true).shape() == Shape{2, 3});
}

TEST_CASE("alpha_dropout keeps the mean and the variance, with selu's limit for what is dropped") {
  Generator generator(8);
  const double p = 0.3, least = -1.7580993408473766;
  const NDArray x = generator.normal({200, 500}, 0, 1, DType::f64);
  const NDArray y = alpha_dropout(x, p, generator, true);
  CHECK(std::abs(mean(y).item<double>()) < 0.02);
  CHECK(std::abs(mean(square(y)).item<double>() - 1) < 0.02);
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * least * least)), shift = -scale * least * p;
  const std::vector<double> from = x.to_vector<double>(), to = y.to_vector<double>();
  int dropped = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool kept = std::abs(to[i] - (from[i] * scale + shift)) < 1e-12;
    const bool lost = std::abs(to[i] - (least * scale + shift)) < 1e-12;
    CHECK((kept || lost));
    dropped += lost;
  }
  CHECK(std::abs(dropped / 1e5 - p) < 0.01);
  const std::vector<double> z =
      feature_alpha_dropout(zeros({300, 4, 5}, DType::f64), p, generator, true).to_vector<double>();
  for (std::size_t i = 0; i < z.size(); ++i) CHECK(z[i] == z[i / 5 * 5]);
  CHECK(alpha_dropout(ones({3}), 1, generator, true).to_vector<float>() == std::vector<float>(3, 0));
}

TEST_CASE("Gaussian noise has the mean and the deviation that it promises") {
  Generator generator(9);
  const NDArray x = full({300, 300}, 2, DType::f64);
  const NDArray scaled = gaussian_dropout(x, 0.2, generator, true),
                moved = gaussian_noise(x, 0.7, generator, true);
  CHECK(mean(scaled).item<double>() == doctest::Approx(2).epsilon(0.01));
  CHECK(stddev(scaled).item<double>() == doctest::Approx(2 * std::sqrt(0.2 / 0.8)).epsilon(0.02));
  CHECK(mean(moved).item<double>() == doctest::Approx(2).epsilon(0.01));
  CHECK(stddev(moved).item<double>() == doctest::Approx(0.7).epsilon(0.02));
}

TEST_CASE("gradients of what acts at random, and the identity outside training") {
  using In = const std::vector<NDArray>&;
  const NDArray x = Generator(10).normal({3, 4, 2}, 0, 1, DType::f64);
  for (const auto& [name, function] : kRandomOps) {
    CAPTURE(name);
    testing::check_gradients(
        [&, drop = function](In in) {
          Generator generator(11);
          return sin(drop(in[0], 0.4, generator, true, Where::current()));
        },
        {x});
    Generator generator(12);
    CHECK(function(x, 0.4, generator, false, Where::current()).storage() == x.storage());
    CHECK(function(x, 0, generator, true, Where::current()).storage() == x.storage());
    CHECK(generator.position() == 0);
    const NDArray turned = transpose(x);
    Generator one(13), two(13);
    CHECK(function(turned, 0.4, one, true, Where::current()).to_vector<double>() ==
          function(turned.copy(), 0.4, two, true, Where::current()).to_vector<double>());
    CHECK(function(x.astype(DType::bf16), 0.4, one, true, Where::current()).dtype() == DType::bf16);
  }
}

TEST_CASE("a gradient without bound is 0 where an element was dropped, with a graph and without") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [name, function] : kRandomOps) {
    if (function == Drop(gaussian_dropout) || function == Drop(gaussian_noise)) continue;
    CAPTURE(name);
    NDArray x = ones({20, 20}, DType::f64);
    set_requires_grad(x);
    Generator generator(16);
    const NDArray y = function(x, 0.5, generator, true, Where::current()),
                  g = full({20, 20}, inf, DType::f64);
    const auto gradient = [&](bool create_graph) {
      return grad({y}, {x}, {.seeds = {g}, .keep_tape = true, .create_graph = create_graph})[0]
          .to_vector<double>();
    };
    const std::vector<double> plain = gradient(false);
    CHECK(std::count(plain.begin(), plain.end(), 0.0) > 100);
    CHECK(std::count(plain.begin(), plain.end(), inf) > 100);
    CHECK(plain == gradient(true));
  }
}

TEST_CASE("what is drawn is the same with any number of workers") {
  for (const auto& [name, function] : kRandomOps) {
    CAPTURE(name);
    const auto run = [drop = function](int workers) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      Generator generator(14);
      return drop(ones({90, 100, 20}), 0.4, generator, true, Where::current()).to_vector<float>();
    };
    const std::vector<float> one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(4));
  }
}

TEST_CASE("what acts at random refuses bad numbers and shapes") {
  Generator generator(15);
  const auto why = [](auto f) { return test::message_of<InvalidArgument>(f); };
  CHECK(why([&] { channel_dropout(ones({3}), 0.5, generator, true); }) ==
        "channel_dropout: the array is (3,); want (N, C, ...)");
  CHECK(why([&] { alpha_dropout(ones({3}), -0.5, generator, true); }) ==
        "alpha_dropout: p is -0.5; wanted 0 to 1");
  CHECK(why([&] { gaussian_dropout(ones({3}), 1, generator, true); }) ==
        "gaussian_dropout: p is 1; want 0 or more and less than 1");
  CHECK(why([&] { gaussian_noise(ones({3}), -1, generator, true); }) ==
        "gaussian_noise: stddev is -1; want 0 or more");
}

}  // namespace heddle
