// Layers of positions.
#include <cmath>
#include <message_of.h>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/graph.h>
#include <heddle/layers.h>
#include <heddle/ops.h>

using namespace heddle;
using heddle::test::message_of;

TEST_CASE("sinusoidal positions are sines and cosines, of any length and number of features") {
  SinusoidalPositions layer, short_waves({.base = 10});
  for (const Shape& shape : {Shape{2, 5, 8}, Shape{3, 7}, Shape{1, 1, 1}, Shape{2, 9, 8}, Shape{2, 3, 8}}) {
    for (SinusoidalPositions* one : {&layer, &short_waves}) {
      const double base = one == &layer ? 10000 : 10;
      const std::vector<float> got = (*one)(full(shape, 2)).to_vector<float>();
      const std::int64_t features = shape[shape.size() - 1], length = shape[shape.size() - 2];
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i) / features % length,
                   feature = static_cast<std::int64_t>(i) % features;
        const double angle =
            static_cast<double>(at) *
            std::pow(base, -2.0 * static_cast<double>(feature / 2) / static_cast<double>(features));
        CHECK(got[i] == doctest::Approx(2 + (feature % 2 ? std::cos(angle) : std::sin(angle))).epsilon(1e-6));
      }
    }
  }
  CHECK(layer(zeros({1, 2, 4}, DType::f64)).dtype() == DType::f64);
  CHECK(layer.parameters().empty());
  CHECK(message_of<InvalidArgument>([] {
          SinusoidalPositions({.base = 0});
        }).find("SinusoidalPositions: base is 0") == 0);
}

TEST_CASE("threads call one layer of sinusoidal positions, and so does a graph") {
  const SinusoidalPositions layer;
  std::vector<std::thread> threads;
  for (int t = 1; t < 5; ++t)
    threads.emplace_back([copy = layer, t]() mutable {
      for (int i = 0; i < 20; ++i) {
        const NDArray y = copy(zeros({1, t * 3, 4}));
        CHECK(y[0][0][1].item<float>() == 1);
      }
    });
  for (std::thread& one : threads) one.join();
  SinusoidalPositions fresh;
  const NDArray x = zeros({3, 4}), into_it = zeros({3, 4});
  Graph graph = default_engine().capture([&] { into_it.assign(fresh(x)); });
  CHECK(fresh(x)[0][1].item<float>() == 1);
  graph.launch();
  CHECK(into_it[0][1].item<float>() == 1);
}

TEST_CASE("learned positions are the first rows of the weight, which is trained") {
  LearnedPositions layer(4, 2);
  const NDArray weight = layer.parameters()[0].value;
  CHECK(layer.parameters()[0].name == "weight");
  CHECK(allclose(layer(ones({2, 3, 2})), weight.detach().slice(0, {0, 3}) + 1));
  backward(sum(layer(ones({2, 3, 2}))));
  CHECK(grad(weight).to_vector<float>() == std::vector<float>{2, 2, 2, 2, 2, 2, 0, 0});
  CHECK(message_of<InvalidArgument>([&] {
          layer(ones({2, 5, 2}));
        }).find("4 steps at most") != std::string::npos);
  CHECK_THROWS_AS(layer(ones({2, 3, 3})), InvalidArgument);
}
