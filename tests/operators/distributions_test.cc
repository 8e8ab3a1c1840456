// Random distributions: moments, tests against the distribution function, independence of the number of
// workers, errors.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <message_of.h>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "call_sites.h"
#include "schedulers.h"

namespace heddle {

using test::message_of;

namespace {

constexpr std::int64_t kMany = 20000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(const NDArray& x) { return x.astype(DType::f64).to_vector<double>(); }

// The Kolmogorov-Smirnov test of numbers against their distribution function `below`. For right numbers, the
// largest distance times the root of their count exceeds 1.95 once in a thousand tests.
void check_distribution(const NDArray& x, const std::function<double(double)>& below) {
  std::vector<double> values = numbers(x);
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = below(values[i]), rank = static_cast<double>(i);
    distance = std::max({distance, expected - rank / n, (rank + 1) / n - expected});
  }
  CHECK(distance * std::sqrt(n) < 1.95);
}

// Pearson's chi-squared test of how often 0, 1, 2 ... occur in x. Values with an expected count below 5 are
// merged. The test's sum has the mean `degrees` and the standard deviation sqrt(2 degrees).
void check_counts(const NDArray& x, const std::function<double(int)>& probability) {
  std::vector<double> values = numbers(x);
  const auto n = static_cast<double>(values.size());
  const int most = static_cast<int>(*std::max_element(values.begin(), values.end()));
  std::vector<double> counts(static_cast<std::size_t>(most) + 1, 0);
  REQUIRE(std::all_of(values.begin(), values.end(),
                      [](double one) { return one >= 0 && one == std::floor(one); }));
  for (double value : values) ++counts[static_cast<std::size_t>(value)];
  double sum = 0, expected = 0, found = 0, seen = 0;
  int degrees = -1;
  for (int k = 0; k <= most; ++k) {
    expected += n * probability(k);
    found += counts[static_cast<std::size_t>(k)];
    if (expected < 5 && k < most) continue;
    if (k == most) expected = n - seen;
    if (expected > 0) sum += (found - expected) * (found - expected) / expected;
    seen += expected;
    expected = found = 0;
    ++degrees;
  }
  CHECK(sum < degrees + 4 * std::sqrt(2.0 * degrees) + 6);
}

void check_moments(const NDArray& x, double mean, double variance) {
  const std::vector<double> values = numbers(x);
  const auto n = static_cast<double>(values.size());
  const double got = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (double value : values) squares += (value - got) * (value - got);
  CHECK(std::abs(got - mean) < 5 * std::sqrt(variance / n));
  CHECK(squares / n == doctest::Approx(variance).epsilon(0.08));
}

double normal_below(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

}  // namespace

TEST_CASE("exponential and gamma numbers have their distributions") {
  Generator from(1);
  const Shape many{kMany};
  for (const DType dtype : {DType::f32, DType::f64})
    check_distribution(exponential(many, 2, dtype, cpu(), from),
                       [](double x) { return 1 - std::exp(-x / 2); });
  check_distribution(gamma(many, 1, 3, DType::f64, cpu(), from),
                     [](double x) { return 1 - std::exp(-x / 3); });
  check_distribution(gamma(many, 3, 1, DType::f32, cpu(), from),
                     [](double x) { return 1 - std::exp(-x) * (1 + x + x * x / 2); });
  check_distribution(gamma(many, 0.5, 1, DType::f64, cpu(), from),
                     [](double x) { return std::erf(std::sqrt(x)); });
  check_moments(gamma(many, 7.5, 2, DType::f64, cpu(), from), 15, 30);
  check_moments(gamma(many, 0.1, 1, DType::f64, cpu(), from), 0.1, 0.1);
  CHECK(numbers(exponential({3}, 0, DType::f64, cpu(), from)) == std::vector<double>(3, 0));
}

TEST_CASE("beta numbers have their distribution") {
  Generator from(2);
  const Shape many{kMany};
  check_distribution(beta(many, 1, 4, DType::f64, cpu(), from),
                     [](double x) { return 1 - std::pow(1 - x, 4); });
  check_distribution(beta(many, 2, 2, DType::f64, cpu(), from), [](double x) { return x * x * (3 - 2 * x); });
  check_distribution(beta(many, 0.5, 0.5, DType::f64, cpu(), from),
                     [](double x) { return 2 / std::acos(-1.0) * std::asin(std::sqrt(x)); });
  check_moments(beta(many, 0.01, 0.01, DType::f32, cpu(), from), 0.5, 0.25 / 1.02);
}

TEST_CASE("counts have their distributions") {
  Generator from(3);
  const Shape many{kMany};
  for (const double rate : {0.3, 4.0, 9.99, 10.0, 55.5}) {
    CAPTURE(rate);
    const NDArray x = poisson(many, rate, DType::i64, cpu(), from);
    check_counts(x, [=](int k) { return std::exp(k * std::log(rate) - rate - std::lgamma(k + 1.0)); });
    check_moments(x, rate, rate);
  }
  check_moments(poisson(many, 1e6, DType::f64, cpu(), from), 1e6, 1e6);
  for (const auto& [n, p] :
       std::vector<std::pair<int, double>>{{1, 0.3}, {12, 0.5}, {30, 0.05}, {40, 0.4}, {60, 0.9}}) {
    CAPTURE(n);
    const NDArray x = binomial(many, n, p, DType::i64, cpu(), from);
    check_counts(x, [n = n, p = p](int k) {
      return std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) +
                      k * std::log(p) + (n - k) * std::log1p(-p));
    });
    check_moments(x, n * p, n * p * (1 - p));
  }
  CHECK(numbers(binomial({4}, 7, 0, DType::i64, cpu(), from)) == std::vector<double>(4, 0));
  CHECK(numbers(binomial({4}, 7, 1, DType::i64, cpu(), from)) == std::vector<double>(4, 7));
  CHECK(numbers(poisson({4}, 0, DType::i64, cpu(), from)) == std::vector<double>(4, 0));
  CHECK(numbers(poisson({2}, 1e6, DType::u8, cpu(), from)) == std::vector<double>(2, 255));
}

TEST_CASE("truncated normal numbers have their distribution, in each interval") {
  Generator from(4);
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {-2, 2}, {-0.5, 0.25}, {0, kInfinity}, {1, 1.25}, {3, 9}, {-kInfinity, -4}, {-6, -5.5}, {-1, 8}}) {
    CAPTURE(low);
    CAPTURE(high);
    const NDArray x = truncated_normal({kMany / 4}, 1, 2, 1 + 2 * low, 1 + 2 * high, DType::f64, cpu(), from);
    // An interval in the upper tail is mirrored to the lower tail: near 1, differences of the distribution
    // function would lose digits.
    const double sign = low > 0 ? -1 : 1, from_low = normal_below(sign * low),
                 to_high = normal_below(sign * high);
    check_distribution(x, [=](double value) {
      return (normal_below(sign * (value - 1) / 2) - from_low) / (to_high - from_low);
    });
  }
  const std::vector<double> far = numbers(truncated_normal({100}, 0, 1, 40, 41, DType::f64, cpu(), from));
  CHECK(*std::min_element(far.begin(), far.end()) >= 40);
  CHECK(*std::max_element(far.begin(), far.end()) < 40.5);
}

TEST_CASE("indices come in proportion to weights and to exp(logits)") {
  Generator from(5);
  const NDArray weights = array<double>({1, 0, 3, 4, 2, 2, 2, 2}, {2, 4});
  const std::vector<double> expected = {0.125, 0, 0.375, 0.5};
  for (const NDArray& x : {multinomial(weights, kMany, true, from), categorical(log(weights), kMany, from)}) {
    CHECK(x.shape() == Shape{2, kMany});
    check_counts(x[0].copy(), [&](int k) { return expected[static_cast<std::size_t>(k)]; });
    check_counts(x[1].copy(), [](int) { return 0.25; });
  }
  // Of indices drawn without replacement, the first one has the same probabilities as one with replacement.
  const NDArray rows = broadcast_to(weights[0], {kMany, 4});
  const NDArray pairs = multinomial(rows, 3, false, from);
  check_counts(slice(pairs, 1, {.end = 1}).copy(),
               [&](int k) { return expected[static_cast<std::size_t>(k)]; });
  const std::vector<double> drawn = numbers(pairs);
  for (std::size_t i = 0; i < 300; i += 3)
    REQUIRE(std::set<double>(drawn.begin() + static_cast<std::ptrdiff_t>(i),
                             drawn.begin() + static_cast<std::ptrdiff_t>(i) + 3) ==
            std::set<double>{0, 2, 3});
  CHECK(categorical(log(weights), {}, from).shape() == Shape{2});
  CHECK(categorical(log(weights[0])).shape() == Shape{});
}

TEST_CASE("choice and shuffle") {
  Generator from(6);
  check_counts(choice(5, {kMany}, true, {}, from), [](int) { return 0.2; });
  const NDArray x = array<float>({0, 1, 2, 3, 4, 5}, {3, 2});
  CHECK(choice(x, {2, 4}, true, {}, from).shape() == Shape{2, 4, 2});
  std::vector<double> all = numbers(choice(x, {3}, false, {}, from));
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<double>{0, 1, 2, 3, 4, 5});
  const NDArray p = array<double>({0, 1, 0});
  CHECK(numbers(choice(3, {2, 2}, true, p, from)) == std::vector<double>(4, 1));
  std::vector<double> rows = numbers(sum(shuffle(x, 0, from), {1}));
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<double>{1, 5, 9});
  CHECK(numbers(sum(shuffle(x, 1, from), {1})) == std::vector<double>{1, 5, 9});
  CHECK(shuffle(zeros({0, 2}), 0, from).shape() == Shape{0, 2});
  CHECK(choice(5, {0}, true, {}, from).shape() == Shape{0});
  NDArray leaf = x.copy();
  set_requires_grad(leaf);
  backward(sum(shuffle(leaf, 0, from) * 2));
  CHECK(grad(leaf).to_vector<float>() == std::vector<float>(6, 2));
}

TEST_CASE("arrays of parameters broadcast, and each element is drawn for its own") {
  Generator from(7), again(7);
  const NDArray rates = array<double>({0, 1000, 0, 50}, {2, 2});
  const std::vector<double> x = numbers(poisson({3, 2, 2}, rates, DType::i64, cpu(), from));
  for (std::size_t i = 0; i < x.size(); i += 2) CHECK(x[i] == 0);
  CHECK(x[1] > 800);
  CHECK(x[3] < 200);
  // A number as the parameter gives the same draws as an array filled with that number.
  from = again = Generator(8);
  CHECK(numbers(gamma({50}, 0.7, 2, DType::f64, cpu(), from)) ==
        numbers(gamma({50}, full({50}, 0.7, DType::f64), 2, DType::f64, cpu(), again)));
  CHECK(from.position() == again.position());
}

TEST_CASE("the same numbers on any number of workers, and none twice") {
  std::vector<std::vector<double>> first;
  const std::vector<double> weights = {1, 2, 3, 4};
  test::on_every_scheduler([&](Engine& engine) {
    const EngineScope scope(engine);
    Generator from(9);
    const NDArray w = broadcast_to(array(weights, {4}), {500, 4});
    std::vector<std::vector<double>> results;
    for (const NDArray& x :
         {gamma({5000}, 0.5, 1, DType::f64, cpu(), from), poisson({5000}, 30, DType::i64, cpu(), from),
          gamma({5000}, 0.5, 1, DType::f64, cpu(), from), multinomial(w, 2, false, from),
          categorical(log(w), 3, from), beta({5000}, 2, 3, DType::f32, cpu(), from)})
      results.push_back(numbers(x));
    CHECK(results[0] != results[2]);
    if (first.empty()) first = results;
    CHECK(results == first);
  });
}

TEST_CASE("parameters out of their range are refused at the call, those in arrays by the op") {
  const auto says = [](const std::function<void()>& call) { return message_of<InvalidArgument>(call); };
  const NDArray none, x = ones({3});
  CHECK(says([] { gamma({2}, 0); }) == "gamma: concentration is 0; wanted more than 0");
  CHECK(says([] { gamma({2}, 1, -1); }) == "gamma: scale is -1; wanted 0 or more");
  CHECK(says([] { beta({2}, 1, std::nan("")); }) == "beta: b is nan; wanted more than 0");
  CHECK(says([] { exponential({2}, kInfinity); }) == "exponential: scale is inf; wanted 0 or more");
  CHECK(says([] { exponential({2}, 1, DType::i32); }) ==
        "exponential: makes f32, f64, f16 and bf16, not i32");
  CHECK(says([] { binomial({2}, 1.5, 0.5); }) == "binomial: n is 1.5; wanted a whole number, 0 or more");
  CHECK(says([] { binomial({2}, 1, 2); }) == "binomial: p is 2; wanted 0 to 1");
  CHECK(says([] { truncated_normal({2}, 0, 1, 2, 2); }) ==
        "truncated_normal: low is 2 and high 2; wanted low < high");
  CHECK(says([&] { poisson({2}, x); }) == "poisson: shapes (3,) and (2,) do not broadcast together");
  CHECK(says([&] { poisson({1}, x); }) == "poisson: rate has shape (3,); wanted one that broadcasts to (1,)");
  CHECK(says([&] { multinomial(x, 4); }) ==
        "multinomial: num_samples is 4 for 3 weights without replacement");
  CHECK(says([&] { multinomial(x, -1, true); }) == "multinomial: num_samples is -1; wanted 0 or more");
  CHECK(says([&] { categorical(zeros({2, 0})); }) == "categorical: nothing to choose from in shape (2, 0)");
  CHECK(says([&] { categorical(zeros({2}, DType::i32)); }) ==
        "categorical: dtype i32; wanted a floating one");
  CHECK(says([&] { choice(3, {4}, false); }) == "choice: shape (4,) of 3 entries without replacement");
  CHECK(says([&] { choice(0.5, {4}); }) == "choice: x is 0.5; wanted a whole number or an array");
  CHECK(says([&] { choice(2, {4}, true, x); }) == "choice: p has shape (3,); wanted (2,)");
  CHECK(says([&] { choice(0, {1}); }) == "choice: nothing to choose from");
  CHECK(says([&] { shuffle(x, 1); }).starts_with("shuffle: axis 1"));
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { gamma({2}, none); }, [&] { categorical(none); }, [&] { multinomial(none, 1); },
           [&] { choice(none, {1}); }, [&] { shuffle(none); }})
    CHECK(says(call).ends_with(
        ": an array is undefined: made without a shape, moved from, or a gradient before backward()"));
  const auto fails = [](const NDArray& y) { return message_of([&] { y.wait(); }); };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(holds(fails(poisson({2, 3}, array<double>({1, -1, 2}))), "poisson: rate is -1 at position (0, 1)"));
  CHECK(holds(fails(multinomial(zeros({2, 3}), 1)),
              "multinomial: row 0 has 0 weights above 0; wanted at least 1"));
  CHECK(holds(fails(multinomial(array<float>({1, 0, -1}), 1)), "multinomial: row 0 has the weight -1"));
  CHECK(holds(fails(multinomial(array<float>({1, 0, 0}), 2)), "wanted at least 2"));
  CHECK(holds(fails(categorical(full({2}, -kInfinity))), "categorical: row 0 has no logit above -infinity"));
  CHECK(holds(fails(categorical(full({2}, std::nan("")))), "categorical: row 0 has the logit"));
}

TEST_CASE("large parameters") {
  // Checks the mean and the standard deviation of large numbers, which are first scaled to the size of 1.
  const auto check_moments = [](const NDArray& x, double expected_mean, double deviation) {
    const NDArray scaled = (x.astype(DType::f64) - expected_mean) / deviation;
    CAPTURE(expected_mean);
    CHECK(std::abs(mean(scaled).item<double>()) < 5 / std::sqrt(static_cast<double>(kMany)));
    CHECK(var(scaled).item<double>() == doctest::Approx(1).epsilon(0.06));
  };
  Generator from(21);
  const Shape many{kMany};
  for (const double n : {1e6, 1e12, 1e15}) {
    for (const double p : {0.3, 0.5, 0.9, 100 / n})
      check_moments(binomial(many, n, p, DType::i64, cpu(), from), n * p, std::sqrt(n * p * (1 - p)));
  }
  for (const double rate : {1e3, 1e9, 1e15, 1e18})
    check_moments(poisson(many, rate, DType::f64, cpu(), from), rate, std::sqrt(rate));
  for (const double k : {1e3, 1e15, 1e25}) {
    check_moments(gamma(many, k, 2, DType::f64, cpu(), from), 2 * k, 2 * std::sqrt(k));
    check_moments(beta(many, k, k, DType::f64, cpu(), from), 0.5, std::sqrt(1 / (8 * k + 4)));
  }
  CHECK(mean(gamma({100}, 1e308, 1, DType::f64, cpu(), from)).item<double>() == doctest::Approx(1e308));
  CHECK(mean(beta({100}, 1e308, 1e308, DType::f64, cpu(), from)).item<double>() == doctest::Approx(0.5));
  CHECK(mean(poisson({100}, 1e300, DType::f64, cpu(), from)).item<double>() == doctest::Approx(1e300));
}

TEST_CASE("a truncated normal distribution far from its mean") {
  Generator from(22);
  const auto drawn = [&](double mean, double deviation, double low, double high) {
    return truncated_normal({kMany}, mean, deviation, low, high, DType::f64, cpu(), from);
  };
  CHECK(min(drawn(5, 1e-160, 0, 1)).item<double>() == 1);
  CHECK(max(drawn(-5, 1e-160, 0, 1)).item<double>() == 0);
  CHECK(min(drawn(5, 5e-324, -kInfinity, 1)).item<double>() == 1);
  CHECK(max(drawn(-1e300, 1e-300, 3, kInfinity)).item<double>() == 3);
  // If the mean is far outside of the bounds, the distribution is exponential beyond the nearer bound. Where
  // the density is nearly constant between the bounds, it is uniform.
  check_distribution((drawn(-1e10, 1, 0, 1) * 1e10), [](double x) { return 1 - std::exp(-x); });
  check_distribution((1 - drawn(1e10, 1, -1, 1)) * 1e10, [](double x) { return 1 - std::exp(-x); });
  check_distribution(drawn(-1e10, 1, 0, 1e-14) * 1e14, [](double x) { return x; });
  check_distribution(drawn(-1e300, 1e200, 0, 1e-200) * 1e200, [](double x) { return x; });
}

TEST_CASE("small weights without replacement are weights") {
  Generator from(23);
  const NDArray w = broadcast_to(array<double>({0, 1e-310, 0, 3e-310}), {200, 4});
  const NDArray chosen_ones = multinomial(w, 2, false, from);
  CHECK(sum(chosen_ones % 2).item<std::int64_t>() == 400);
}

}  // namespace heddle
