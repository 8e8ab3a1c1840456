#include <cmath>
#include <gradient_check.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

NDArray uniform(const Shape& shape, DType dtype = DType::f64) {
  return Generator(1).uniform(shape, -3, 3, dtype);
}

std::string failure(const NDArray& result) {
  try {
    result.wait();
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "none";
}

}  // namespace

TEST_CASE("softmax of small and of extreme numbers") {
  const NDArray x = array<float>({0, 0, 1000, 1000, -1000, 0}, {3, 2});
  CHECK(softmax(x).to_vector<float>() == std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f, 0, 1});
  const std::vector<float> logs = log_softmax(x).to_vector<float>();
  CHECK(logs[0] == doctest::Approx(-std::log(2.0)));
  CHECK(logs[4] == -1000);
  CHECK(logs[5] == 0);
  CHECK(softmax(zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(softmax(zeros({0, 2}), 0).shape() == Shape{0, 2});
}

TEST_CASE("softmax of a line longer than the integers of a float") {
  const std::int64_t length = (std::int64_t{1} << 24) * 3 / 2;
  const NDArray y = softmax(zeros({length}));
  CHECK(max(y).item<float>() == doctest::Approx(1.0 / static_cast<double>(length)).epsilon(1e-6));
}

TEST_CASE("gradients of softmax and its relatives agree with finite differences") {
  for (const int axis : {0, 1, -1}) {
    testing::check_gradients([&](const std::vector<NDArray>& in) { return softmax(in[0], axis); },
                             {uniform({3, 4, 2})});
    testing::check_gradients([&](const std::vector<NDArray>& in) { return log_softmax(in[0], axis); },
                             {uniform({3, 4, 2})});
  }
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const NDArray labels = array<std::int64_t>({2, 0, 1, 2}, {4}).astype(dtype);
    testing::check_gradients([&](const std::vector<NDArray>& in) { return cross_entropy(in[0], labels); },
                             {uniform({4, 3})});
  }
}

TEST_CASE("cross_entropy is the mean of -log_softmax at the labels, in f32 too") {
  const NDArray logits = uniform({500, 37}, DType::f32), labels = Generator(2).integers({500}, 0, 37);
  const NDArray logs = log_softmax(logits.astype(DType::f64));
  const std::vector<double> all = logs.to_vector<double>();
  const std::vector<std::int64_t> classes = labels.to_vector<std::int64_t>();
  double expected = 0;
  for (std::size_t i = 0; i < 500; ++i) expected -= all[i * 37 + static_cast<std::size_t>(classes[i])] / 500;
  CHECK(cross_entropy(logits, labels).item<float>() == doctest::Approx(expected).epsilon(1e-5));
  CHECK(cross_entropy(logits.astype(DType::f64), labels).item<double>() == doctest::Approx(expected));
}

TEST_CASE("cross_entropy of a hopeless label is finite") {
  const NDArray logits = array<float>({200, 0}, {1, 2});
  CHECK(cross_entropy(logits, array<std::int64_t>({1}, {1})).item<float>() == doctest::Approx(200));
}

TEST_CASE("cross_entropy of no rows is NaN") {
  CHECK(std::isnan(cross_entropy(zeros({0, 3}), zeros({0}, DType::i64)).item<float>()));
}

TEST_CASE("a label out of range fails the op and is named") {
  const NDArray logits = zeros({3, 4});
  CHECK(failure(cross_entropy(logits, array<std::int64_t>({0, 4, 1}, {3}))) ==
        "cross_entropy: label 4 at row 1 is outside 0 .. 3");
  CHECK(failure(cross_entropy(logits, array<std::int32_t>({0, 1, -1}, {3}))) ==
        "cross_entropy: label -1 at row 2 is outside 0 .. 3");
}

TEST_CASE("softmax and cross_entropy refuse what they cannot do, at the call") {
  CHECK_THROWS_AS(softmax(zeros({2}, DType::i32)), InvalidArgument);
  CHECK_THROWS_AS(softmax(zeros({2, 2}), 2), InvalidArgument);
  CHECK_THROWS_AS(softmax(zeros({})), InvalidArgument);
  CHECK_THROWS_WITH_AS(
      cross_entropy(zeros({2, 3}), zeros({3}, DType::i64)),
      "cross_entropy: logits (2, 3), labels (3,); wanted (..., C) with at least one class, and (...)",
      InvalidArgument);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), zeros({2})),
                       "cross_entropy: labels have dtype f32; wanted integers", InvalidArgument);
}

}  // namespace heddle
