// Rotary embedding, compared with complex numbers.
#include <cmath>
#include <complex>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

NDArray normal(const Shape& shape, std::uint64_t seed) {
  return Generator(seed).normal(shape, 0, 1, DType::f64);
}

NDArray by_complex(const NDArray& x, const NDArray& positions, const RotaryOptions& options) {
  const std::int64_t features = x.shape()[x.ndim() - 1], half = features / 2;
  Shape rows;
  for (int i = 0; i < x.ndim() - 1; ++i) rows.push_back(x.shape()[i]);
  const auto at = broadcast_to(positions.astype(DType::f64), rows).to_vector<double>();
  std::vector<double> values = x.to_vector<double>();
  for (std::size_t row = 0; row < at.size(); ++row)
    for (std::int64_t i = 0; i < half; ++i) {
      double* const of_row = values.data() + row * static_cast<std::size_t>(features);
      double &a = of_row[options.interleaved ? 2 * i : i],
             &b = of_row[options.interleaved ? 2 * i + 1 : half + i];
      const double angle =
          at[row] * std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(features));
      const std::complex<double> rotated = std::complex(a, b) * std::polar(1.0, angle);
      a = rotated.real();
      b = rotated.imag();
    }
  return array(values, x.shape());
}

void check_close(const NDArray& a, const NDArray& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.astype(DType::f64).to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - y[i]) / (1 + std::abs(y[i]));
    worst = error <= worst ? worst : error;  // NaN is the worst
  }
  CHECK(worst <= tolerance);
}

using In = const std::vector<NDArray>&;

}  // namespace

TEST_CASE("rotary rotates pairs of features by position") {
  for (const RotaryOptions& options : {RotaryOptions{}, RotaryOptions{.base = 50, .interleaved = true}}) {
    for (const Shape& shape :
         {Shape{3, 4}, Shape{2, 3, 5, 8}, Shape{2, 2, 700, 34}, Shape{1, 2}, Shape{3, 0, 4}, Shape{3, 0}}) {
      CAPTURE(shape.to_string());
      const NDArray x = normal(shape, 1);
      const std::int64_t length = shape[shape.size() - 2];
      const NDArray expected = by_complex(x, arange(length, DType::i64), options);
      check_close(rotary(x, {}, options), expected, 1e-12);
      check_close(rotary(x.astype(DType::f32), {}, options), expected, 1e-5);
      if (x.ndim() < 4) continue;
      check_close(rotary(swapaxes(swapaxes(x, 1, 2).copy(), 1, 2), {}, options), expected, 1e-12);
      check_close(rotary(swapaxes(swapaxes(x, 2, 3).copy(), 2, 3), {}, options), expected, 1e-12);
      for (const Shape& of : {Shape{length}, Shape{shape[0], 1, length}, Shape{shape[1], 1}, Shape{}}) {
        const NDArray positions = Generator(3).integers(of, -50, 2000);
        check_close(rotary(x, positions, options), by_complex(x, positions, options), 1e-9);
        check_close(rotary(x, positions.astype(DType::i32), options), by_complex(x, positions, options),
                    1e-9);
      }
    }
  }
  const NDArray half = normal({3, 8}, 2).astype(DType::f16);
  CHECK(rotary(half).dtype() == DType::f16);
}

TEST_CASE("gradients of rotary, and scores that depend on distances alone") {
  const NDArray x = normal({2, 3, 4}, 1), positions = array<std::int64_t>({5, 0, 9});
  testing::check_gradients([](In v) { return rotary(v[0]); }, {x});
  testing::check_gradients(
      [&](In v) { return square(rotary(v[0], positions, {.base = 10, .interleaved = true})); }, {x});
  const NDArray q = normal({1, 6, 8}, 2), k = normal({1, 6, 8}, 3);
  const auto scores = [&](std::int64_t from) {
    const NDArray at = arange(6, DType::i64) + from;
    return matmul(rotary(q, at), swapaxes(rotary(k, at), -1, -2));
  };
  check_close(scores(0), scores(1000), 1e-10);
}

TEST_CASE("rotary refuses what does not fit, at the call") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([] { rotary(ones({2, 5})); }) == "rotary: x is (2, 5); want (..., T, D) with an even D");
  CHECK(why([] { rotary(ones({4})); }) == "rotary: x is (4,); want (..., T, D) with an even D");
  CHECK(why([] {
          rotary(ones({2, 4}), zeros({3}, DType::i64));
        }) == "rotary: positions are (3,); want a shape that broadcasts to (2,)");
  CHECK(why([] { rotary(ones({2, 4}), zeros({2})); }).find("rotary: positions") == 0);
  CHECK(why([] { rotary(ones({2, 4}), {}, {.base = 0}); }) == "rotary: base is 0; want a positive number");
  CHECK(why([] { rotary(ones({2, 4}, DType::i32)); }) == "rotary: dtype i32; wanted a floating one");
}
