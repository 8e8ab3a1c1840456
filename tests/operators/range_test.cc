// Results and gradients inside the dtype's range, of numbers whose squares, sums or products are outside.
#include <cmath>
#include <functional>
#include <gradient_check.h>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

using Function = std::function<NDArray(const NDArray&)>;

// A large and a small number whose squares are outside the range of the dtype.
double large_in(DType dtype) { return dtype == DType::f32 ? 1e25 : 1e200; }
double small_in(DType dtype) { return dtype == DType::f32 ? 1e-30 : 1e-200; }

struct Found {
  double value;
  std::vector<double> slopes;
};

Found found(const Function& f, const std::vector<double>& x, DType dtype) {
  NDArray leaf = array(x, {static_cast<std::int64_t>(x.size())}).astype(dtype);
  set_requires_grad(leaf);
  const NDArray y = f(leaf);
  backward(y);
  return {y.astype(DType::f64).item<double>(), grad(leaf).astype(DType::f64).to_vector<double>()};
}

// Checks, for a function with f(s x) = s f(x), that results and gradients are right for large and small s;
// the elements of x are of the size of 1.
void check_scales(const Function& f, const std::vector<double>& x) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Found one = found(f, x, dtype);
    for (const double scale : {large_in(dtype), small_in(dtype)}) {
      CAPTURE(name_of(dtype));
      CAPTURE(scale);
      std::vector<double> scaled;
      for (const double number : x) scaled.push_back(number * scale);
      const Found other = found(f, scaled, dtype);
      CHECK(other.value / scale == doctest::Approx(one.value).epsilon(1e-6));
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(other.slopes[i] == doctest::Approx(one.slopes[i]).epsilon(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("norms and deviations of large and of small numbers") {
  const std::vector<double> x = {3, -4, 0.5, 1};
  for (const double p : {2.0, 3.0, 2.5, 0.5, 1.0, -1.0, -2.0, kInf, -kInf, 40.0}) {
    CAPTURE(p);
    check_scales([=](const NDArray& in) { return norm(in, p); }, x);
    check_scales([=](const NDArray& in) { return vector_norm(in, p); }, x);
  }
  check_scales([](const NDArray& in) { return stddev(in); }, x);
  check_scales([](const NDArray& in) { return stddev(in, {}, 1); }, x);
  for (const char* ord : {"fro", "nuc", "2", "1", "inf"})
    check_scales([=](const NDArray& in) { return matrix_norm(reshape(in, {2, 2}), ord); }, x);
}

TEST_CASE("a large number beside small ones") {
  const Found of = found([](const NDArray& x) { return norm(x); }, {1e20, 1, 1}, DType::f32);
  CHECK(of.value == doctest::Approx(1e20));
  CHECK(of.slopes[0] == 1);
  CHECK(of.slopes[1] == doctest::Approx(1e-20));
  CHECK(norm(array<double>({1e-200, 1e300})).item<double>() == doctest::Approx(1e300));
  const NDArray rows = array<double>({1e200, 1e200, 3, 4, 3e-200, 4e-200, 0, 0}, {4, 2});
  const std::vector<double> norms = norm(rows, 2, {1}).to_vector<double>();
  CHECK(norms[0] == doctest::Approx(std::sqrt(2.0) * 1e200));
  CHECK(norms[1] == 5);
  CHECK(norms[2] == doctest::Approx(5e-200));
  CHECK(norms[3] == 0);
  CHECK(norm(array<double>({kInf, 1})).item<double>() == kInf);
  CHECK(std::isnan(norm(array<double>({std::nan(""), 1e300})).item<double>()));
  CHECK(norm(array<double>({1.7e308, 1.7e308})).item<double>() == kInf);
}

TEST_CASE("the largest numbers have a mean and a deviation") {
  const double most = std::numeric_limits<double>::max();
  CHECK(mean(array<double>({most, most, most, -most})).item<double>() == most / 2);
  CHECK(nanmean(array<double>({most, most, std::nan("")})).item<double>() == most);
  const auto most_f32 = std::numeric_limits<float>::max();
  CHECK(nanmean(array<float>({most_f32, most_f32, std::nanf("")})).item<float>() == most_f32);
  CHECK(stddev(array<float>({most_f32, -most_f32, -most_f32})).item<float>() ==
        doctest::Approx(static_cast<double>(most_f32) * std::sqrt(8.0) / 3));
  CHECK(mean(array<double>({kInf, 1})).item<double>() == kInf);
  CHECK(std::isnan(mean(array<double>({kInf, -kInf})).item<double>()));
}

TEST_CASE("variances whose sum of squares is beyond the range") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double size = dtype == DType::f32 ? 3e19 : 2e154;
    NDArray x = concat({full({1}, size, dtype), zeros({999}, dtype)});
    set_requires_grad(x);
    const NDArray y = var(x);
    backward(y);
    CHECK(y.astype(DType::f64).item<double>() == doctest::Approx(size * (0.999 / 1000) * size));
    CHECK(grad(x).astype(DType::f64).to_vector<double>()[0] == doctest::Approx(2 * size * 0.999 / 1000));
  }
  CHECK(var(array<float>({1e20F, 0})).item<float>() == std::numeric_limits<float>::infinity());
}

TEST_CASE("statistics of equal numbers and of no number, and their second gradients") {
  CHECK(var(array<double>({1, 2, 3})).item<double>() == 2.0 / 3);
  CHECK(std::isnan(var(array<double>({1}), {}, 1).item<double>()));
  CHECK(std::isnan(stddev(array<double>({1}), {}, 1).item<double>()));
  const NDArray x = Generator(3).uniform({3, 4}, 0.3, 2, DType::f64);
  testing::check_gradients([](const std::vector<NDArray>& in) { return var(in[0], {0}, 1); }, {x});
  testing::check_gradients([](const std::vector<NDArray>& in) { return stddev(in[0], {1}); }, {x});
  for (const double p : {2.0, 3.0, 1.5, -1.0}) {
    testing::check_gradients([=](const std::vector<NDArray>& in) { return norm(in[0], p, {1}); }, {x});
  }
}

TEST_CASE("determinants whose factors' products leave the range") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double large = large_in(dtype);
    NDArray x = diag(array<double>({large, large, 1 / large, 2 / large})).astype(dtype);
    set_requires_grad(x);
    const NDArray y = det(x);
    backward(y);
    CHECK(y.astype(DType::f64).item<double>() == doctest::Approx(2).epsilon(1e-6));
    const NDArray slopes = diagonal(grad(x).astype(DType::f64)) * diagonal(x.detach().astype(DType::f64));
    for (const double product : slopes.to_vector<double>())
      CHECK(product == doctest::Approx(2).epsilon(1e-5));
    CHECK(slogdet(x)[1].astype(DType::f64).item<double>() == doctest::Approx(std::log(2)).epsilon(1e-4));
  }
}

TEST_CASE("gradients whose squares leave the range") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double large = large_in(dtype), small = small_in(dtype);
    const auto slope = [&](const Function& f, double x) { return found(f, {x}, dtype).slopes[0]; };
    CHECK(slope([](const NDArray& x) { return sum(asinh(x)); }, large) ==
          doctest::Approx(1 / large).epsilon(1e-6));
    CHECK(slope([](const NDArray& x) { return sum(acosh(x)); }, large) ==
          doctest::Approx(1 / large).epsilon(1e-6));
    for (const double size : {large, small}) {
      CHECK(slope([=](const NDArray& x) { return sum(atan2(x, size)); }, size) * size ==
            doctest::Approx(0.5));
      CHECK(slope([=](const NDArray& x) { return sum(atan2(size, x)); }, size) * size ==
            doctest::Approx(-0.5));
      CHECK(slope([=](const NDArray& x) { return sum(hypot(x, size)); }, size) ==
            doctest::Approx(std::sqrt(0.5)));
    }
  }
}

TEST_CASE("gradients of products whose parts leave the range") {
  const auto close = [](const std::vector<double>& given, const std::vector<double>& wanted) {
    REQUIRE(given.size() == wanted.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      CHECK((given[i] == wanted[i] || std::abs(given[i] / wanted[i] - 1) < 1e-13));
    }
  };
  const Function product = [](const NDArray& x) { return prod(x); };
  const Function running = [](const NDArray& x) { return cumprod(x)[-1]; };
  for (const Function& f : {product, running}) {
    close(found(f, {1e-200, 1e-200, 1e300, 1e100}, DType::f64).slopes, {1e200, 1e200, 1e-300, 1e-100});
    close(found(f, {1e100, 1e300, 1e-200, 1e-200}, DType::f64).slopes, {1e-100, 1e-300, 1e200, 1e200});
    close(found(f, {1e200, 1e200, 1e-300}, DType::f64).slopes, {1e-100, 1e-100, kInf});
    std::vector<double> tiny = found(f, {1.234567890123456e-200, 1e-115, 1e200}, DType::f64).slopes;
    tiny.pop_back();  // the slope at the last element is subnormal, and so not exact
    close(tiny, {1e85, 1.234567890123456});
    close(found(f, {0, 1e-200, 1e-200, 1e300, 1e100}, DType::f64).slopes, {1, 0, 0, 0, 0});
    close(found(f, {0, 0, 1e200, 1e200}, DType::f64).slopes, {0, 0, 0, 0});
  }
  const std::vector<double> sums = found([](const NDArray& x) { return sum(cumprod(x)); },
                                         {1e-200, 1e-120, 1e300, 1e-150, 1e250}, DType::f64)
                                       .slopes;
  close(sums, {1e280, 1e200, 1e-220, 1e230, 1e-170});
}

}  // namespace heddle
