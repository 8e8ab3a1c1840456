#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

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

}  // namespace heddle
