// Sorting and searching: gradients, stability, halves, numbers of workers, errors.
#include <algorithm>
#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <map>
#include <message_of.h>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/number_text.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"
#include "schedulers.h"

namespace heddle {

using testing::check_gradients;

namespace {

using In = const std::vector<NDArray>&;

// An array of distinct numbers in random order.
NDArray shuffled(Shape shape, std::uint64_t seed = 5) {
  return (Generator(seed).permutation(element_count(shape)).astype(DType::f64) * 0.5 - 3).view_as(shape);
}

std::string refusal(auto&& call) { return test::message_of<InvalidArgument>(call); }

void check_alike(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  CHECK(all(a == b || (isnan(a) && isnan(b))).item<bool>());
}

}  // namespace

TEST_CASE("gradients reach the elements that sorting and searching chose") {
  const NDArray x = shuffled({3, 4, 2});
  for (const int axis : {0, 1, -1}) {
    check_gradients([=](In in) { return square(sort(in[0], axis)); }, {x});
    check_gradients([=](In in) { return sort(transpose(in[0]), axis, true); }, {x});
    check_gradients([=](In in) { return topk(in[0], 2, axis)[0]; }, {x});
    check_gradients([=](In in) { return kthvalue(in[0], 2, axis)[0]; }, {x});
    check_gradients([=](In in) { return cummax(in[0], axis) * cummin(in[0], axis); }, {x});
  }
  check_gradients([](In in) { return sort(in[0], {}); }, {x});
  check_gradients([](In in) { return median(in[0], {0, 2}); }, {x});
  check_gradients([](In in) { return median(in[0]); }, {x});
  check_gradients([](In in) { return quantile(in[0], 0.3, {1}, true); }, {x});
  check_gradients([](In in) { return quantile(in[0], in[1], {1}); }, {x, array<double>({0.3, 0.9})});
  check_gradients([](In in) { return bincount(in[1], in[0], 6); },
                  {shuffled({4}), array<std::int64_t>({1, 0, 1, 3})});
}

TEST_CASE("equal elements stay in their order, in lines of every length and in both directions") {
  for (const std::int64_t n : {5, 1000, 1025, 5000, 200'000}) {
    if (test::kSanitized && n > 5000) continue;
    CAPTURE(n);
    const NDArray x = Generator(3).integers({n}, 0, 7);
    for (const bool descending : {false, true}) {
      const auto values = x.to_vector<std::int64_t>();
      std::vector<std::int64_t> order(values.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const auto left = values[static_cast<std::size_t>(a)], right = values[static_cast<std::size_t>(b)];
        return descending ? left > right : left < right;
      });
      CHECK(argsort(x, 0, descending).to_vector<std::int64_t>() == order);
      CHECK(argsort(x.astype(DType::f32), 0, descending).to_vector<std::int64_t>() == order);
      CHECK(argsort(x.astype(DType::bf16), 0, descending).to_vector<std::int64_t>() == order);
    }
  }
}

TEST_CASE("zeros of both signs are equal, and NaN is above infinity") {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  const NDArray x = array<double>({0.0, nan, -0.0, infinity, -nan, -1.0, 0.0, -infinity});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const NDArray y = x.astype(dtype);
    CHECK(argsort(y).to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 5, 0, 2, 6, 3, 1, 4});
    CHECK(argsort(y, -1, true).to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{1, 4, 3, 0, 2, 6, 5, 7});
    check_alike(sort(y), take(y, argsort(y)));
    check_alike(topk(y, 3)[0], take(y, array<std::int64_t>({1, 4, 3})));
    CHECK(topk(y, 3, 0, false)[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{7, 5, 0});
    const auto signs = [](const NDArray& of) {
      std::vector<bool> result;
      for (const double value : of.astype(DType::f64).to_vector<double>())
        result.push_back(std::signbit(value));
      return result;
    };
    const NDArray zeros_of_both = array<double>({0.0, -0.0, 1.0, 0.0, -0.0}).astype(dtype);
    CHECK(signs(sort(zeros_of_both)) == std::vector<bool>{false, true, false, true, false});
    CHECK(signs(sort(zeros_of_both, -1, true)) == std::vector<bool>{false, false, true, false, true});
    CHECK(unique(y).size() == 5);
    CHECK(unique(y, false).size() == 6);
    CHECK(std::isnan(median(y).astype(DType::f64).item<double>()));
    CHECK(searchsorted(sort(y), array({nan, 0.0}).astype(dtype)).to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{6, 2});
    check_alike(cummax(y).slice(0, {.begin = 1}), full({7}, nan, dtype));
  }
}

TEST_CASE("the few elements that topk chooses are the first of all sorted ones") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t longest = test::kSanitized ? 70'000 : 300'000;
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i64, DType::i16, DType::u8, DType::boolean}) {
    for (const std::int64_t n : {std::int64_t{34}, std::int64_t{1000}, longest}) {
      NDArray mixed = Generator(7).normal({n}, 0, 50, DType::f64);
      if (is_floating(dtype)) {
        mixed[Slice{.step = 17}] = nan;
        mixed[Slice{.begin = 1, .step = 13}] = -0.0;
        mixed[Slice{.begin = 2, .step = 13}] = 0;
      }
      const NDArray rising = arange(0, static_cast<double>(n), 1, DType::f64) - 20;
      for (const NDArray& given : {mixed, rising, flip(rising)}) {
        const NDArray x = dtype == DType::u8 ? clip(given, 0, 255).astype(dtype) : given.astype(dtype);
        for (const bool largest : {false, true}) {
          const NDArray order = argsort(x, 0, largest);
          for (const std::int64_t k : {1, 5, 32, 33}) {
            INFO(name_of(dtype), " n=", n, " k=", k, " largest=", largest);
            const auto [values, indices] = topk(x, k, 0, largest);
            CHECK(all(indices == order.slice(0, {0, k})).item<bool>());
            check_alike(values, take(x, indices));
            if (!largest)
              CHECK(kthvalue(x, k, 0)[1].item<std::int64_t>() == order[k - 1].item<std::int64_t>());
          }
        }
      }
    }
  }
}

TEST_CASE("distinct elements, whether they are counted in one pass or sorted") {
  struct Seen {
    std::int64_t first, count;
  };
  const std::int64_t longest = test::kSanitized ? 140'000 : 400'000;
  for (const DType dtype : {DType::i64, DType::i32, DType::u16, DType::f32, DType::f64}) {
    for (const std::int64_t n : {std::int64_t{100}, std::int64_t{9000}, longest}) {
      for (const std::int64_t distinct : {1, 100, 4096, 4097, 30'000}) {
        INFO(name_of(dtype), " n=", n, " distinct=", distinct);
        const NDArray x = (Generator(11).integers({n}, 0, distinct) * 2).astype(dtype);
        std::map<double, Seen> seen;
        const auto elements = x.astype(DType::f64).to_vector<double>();
        for (std::size_t i = 0; i < elements.size(); ++i)
          ++seen.try_emplace(elements[i], Seen{static_cast<std::int64_t>(i), 0}).first->second.count;
        std::vector<double> keys;
        std::vector<std::int64_t> firsts, counts;
        for (const auto& [key, entry] : seen) {
          keys.push_back(key);
          firsts.push_back(entry.first);
          counts.push_back(entry.count);
        }
        CHECK(unique(x).astype(DType::f64).to_vector<double>() == keys);
        const auto [values, first, inverse, count] = unique_all(x);
        CHECK(values.astype(DType::f64).to_vector<double>() == keys);
        CHECK(first.to_vector<std::int64_t>() == firsts);
        CHECK(count.to_vector<std::int64_t>() == counts);
        CHECK(all(take(values, inverse) == x).item<bool>());
      }
    }
  }
  // Integers around 0, except that the last element is an outlier.
  for (const std::int64_t outlier : {-1'000'000'000, -3000, 0, 3000, 1'000'000'000}) {
    const NDArray y = Generator(12).integers({longest}, -3, 4, DType::i32);
    y[longest - 1] = outlier;
    std::vector<std::int32_t> distinct{-3, -2, -1, 0, 1, 2, 3};
    if (outlier)
      distinct.insert(outlier < 0 ? distinct.begin() : distinct.end(), static_cast<std::int32_t>(outlier));
    CHECK(unique(y).to_vector<std::int32_t>() == distinct);
    const auto [values, first, inverse, counts] = unique_all(y);
    CHECK(values.to_vector<std::int32_t>() == distinct);
    CHECK(all(take(values, inverse) == y).item<bool>());
    CHECK(sum(counts).item<std::int64_t>() == longest);
    CHECK(all(take(y, first) == values).item<bool>());
  }
  // A long array of zeros with a few NaNs. With the option false, each NaN counts as a distinct value.
  NDArray x = zeros({longest});
  x[Slice{.step = 50'000}] = std::numeric_limits<float>::quiet_NaN();
  CHECK(unique(x).size() == 2);
  CHECK(unique(x, false).size() == 1 + (longest + 49'999) / 50'000);
}

TEST_CASE("between two elements that are far apart lies what is in proportion") {
  const double infinity = std::numeric_limits<double>::infinity();
  const NDArray low = array<double>({-infinity, 0, 1});
  CHECK(median(array<double>({-infinity, 1})).item<double>() == -infinity);
  CHECK(median(array<double>({1, infinity})).item<double>() == infinity);
  CHECK(std::isnan(median(array<double>({-infinity, infinity})).item<double>()));
  CHECK(median(array<double>({-1e308, 1.7e308})).item<double>() == doctest::Approx(3.5e307));
  CHECK(quantile(low, 0.125).item<double>() == -infinity);
  CHECK(quantile(low, 0.375).item<double>() == -infinity);
  CHECK(quantile(low, 0.5).item<double>() == 0);
  CHECK(quantile(array<double>({2, 3}), 0.9).item<double>() == doctest::Approx(2.9));
  NDArray q = array<double>({0.5});
  set_requires_grad(q);
  backward(sum(quantile(array<double>({3, 1}), q)));
  CHECK(grad(q).item<double>() == 2);
}

TEST_CASE("what is sorted and counted does not depend on schedulers and workers") {
  const std::int64_t n = test::kSanitized ? 140'000 : 300'000;
  std::vector<std::int64_t> expected;
  test::on_every_scheduler([&](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = (Generator(2).normal({n}) * 100).astype(DType::i32);
    const auto [values, first, inverse, counts] = unique_all(x);
    const auto [bins, edges] = histogram(x.astype(DType::f32), 17);
    const NDArray all = concat({argsort(x), sort(x), values, first, inverse, counts, bins, nonzero(x)[0]});
    if (expected.empty()) expected = all.to_vector<std::int64_t>();
    CHECK(all.to_vector<std::int64_t>() == expected);
  });
}

TEST_CASE("the gradient of cumprod keeps what the product of the elements before loses") {
  NDArray x = array<double>({1e-300, 1e-300, 1e300, 1e300, 0.0, 2.0});
  set_requires_grad(x);
  backward(cumprod(x).slice(0, {3, 4}), ones({1}, DType::f64));
  const std::vector<double> expected{1e300, 1e300, 1e-300, 1e-300, 0.0, 0.0},
      gradient = grad(x).to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::abs(gradient[i] - expected[i]) <= 1e-12 * std::abs(expected[i]));
  NDArray small = full({40}, 1e-30, DType::f32);
  set_requires_grad(small);
  backward(sum(cumprod(small)));
  CHECK(grad(small).slice(0, {0, 1}).item<float>() == doctest::Approx(1));
  CHECK(grad(small).slice(0, {1, 2}).item<float>() == doctest::Approx(1e-30));
}

TEST_CASE("refusals of sorting and searching say what came") {
  const NDArray x = zeros({4, 3});
  CHECK(refusal([&] { sort(x, 2); }).starts_with("sort: axis 2"));
  CHECK(refusal([&] { topk(x, 4); }) == "topk: k is 4 for axis -1 of shape (4, 3)");
  CHECK(refusal([&] { kthvalue(x, 0); }) ==
        "kthvalue: k is 0 for axis -1 of shape (4, 3); wanted 1 to its size");
  CHECK(refusal([&] { quantile(x, 2); }).starts_with("quantile: q is 2"));
  CHECK(refusal([&] { median(zeros({0})); }) == "median: nothing to choose from in shape (0,)");
  CHECK(refusal([&] { searchsorted(x, x); }) ==
        "searchsorted: the sorted array has shape (4, 3); wanted one axis");
  CHECK(refusal([&] { histogram(x, 0); }) == "histogram: bins is 0; wanted 1 or more");
  CHECK(refusal([&] { histogram(x, 2, 1, 0); }).starts_with("histogram: low is 1"));
  CHECK(refusal([&] { bincount(x); }) == "bincount: dtype f32; wanted integers");
  CHECK(refusal([&] {
          bincount(array<std::int64_t>({1, -1}));
        }) == "bincount: an element is -1; wanted 0 or more");
  CHECK(refusal([&] { argmax(zeros({0})); }) == "argmax: axis 0 of shape (0,) is empty");
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray endless = array({1.0f, std::numeric_limits<float>::infinity()});
    CHECK(test::message_of([&] { histogram(endless)[0].wait(); }).find("are not finite") !=
          std::string::npos);
  });
}

TEST_CASE("an array of fractions with one outside 0 to 1 is an error of quantile that says which") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = arange(5, DType::f64);
    for (const double q : {-0.1, 1.5, std::nan("")}) {
      const NDArray y = quantile(x, array<double>({0.5, q}));
      const std::string message = test::message_of([&] { y.wait(); });
      CAPTURE(message);
      CHECK(message.find("quantile: q is " + number_text(q) + "; wanted 0 to 1") != std::string::npos);
    }
    CHECK(quantile(x, array<double>({0, 0.5, 1})).to_vector<double>() == std::vector<double>{0, 2, 4});
  });
}

TEST_CASE("a histogram with one bound that all elements are beyond is an error that says which") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = arange(5, DType::f64);
    const NDArray above = histogram(x, 4, 10)[1], below = histogram(x, 4, {}, -3)[1];
    CHECK(test::message_of([&] { above.wait(); }).find("histogram: low is 10 and high 4") !=
          std::string::npos);
    CHECK(test::message_of([&] { below.wait(); }).find("histogram: low is 0 and high -3") !=
          std::string::npos);
    CHECK(histogram(x, 2, 4)[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
    CHECK(histogram(zeros({0}), 2, 10)[0].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0});
  });
}

TEST_CASE("a histogram of almost all numbers") {
  const double most = 1.7e308;
  const auto [counts, edges] = histogram(array<double>({-most, -1, 0, 1, most}), 4);
  const std::vector<double> at = edges.to_vector<double>();
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(std::abs(at[i] / most - (static_cast<double>(i) / 2 - 1)) < 1e-15);
  CHECK(counts.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 2, 1});
}

TEST_CASE("a histogram of halves counts by the edges that it returns") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const NDArray x = (arange(11, DType::f64) / 10).astype(dtype);
    const auto [counts, edges] = histogram(x, 10, 0, 1);
    CHECK(edges.dtype() == dtype);
    CHECK(edges.astype(DType::f64).to_vector<double>() == x.astype(DType::f64).to_vector<double>());
    CHECK(counts.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2});
  }
}

TEST_CASE("searchsorted of u64 beside signed integers is exact") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const NDArray large =
      array<std::uint64_t>({1, std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}});
  const NDArray values =
      array<std::int64_t>({-1, 0, 1, kHuge, kHuge + 1, std::numeric_limits<std::int64_t>::max()});
  CHECK(searchsorted(large, values).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 0, 1, 2, 3});
  CHECK(searchsorted(large, values, true).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 0, 1, 2, 3, 3});
  CHECK(searchsorted(values, large).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 3, 4, 6});
  CHECK(searchsorted(values, large, true).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 4, 5, 6});
  const NDArray narrow = array<std::int32_t>({-5, 7});
  CHECK(searchsorted(narrow, large).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 2, 2});
  CHECK(searchsorted(large, narrow).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
}

}  // namespace heddle
