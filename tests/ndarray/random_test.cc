#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/random.h>

using namespace heddle;

namespace {

using Counter = std::array<std::uint32_t, 4>;

struct Moments {
  double mean = 0, variance = 0, least = 0, most = 0;
};

Moments moments_of(const NDArray& array) {
  const auto values = array.astype(DType::f64).to_vector<double>();
  const auto n = static_cast<double>(values.size());
  Moments m;
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (double x : values) m.variance += (x - m.mean) * (x - m.mean) / n;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  m.least = *least;
  m.most = *most;
  return m;
}

constexpr std::int64_t kMany = 200'000;

}  // namespace

// The known-answer vectors of Random123 (kat_vectors).
TEST_CASE("philox4x32-10 gives the published words") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers fill their range evenly") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Generator generator(1);
    const Moments m = moments_of(generator.uniform({kMany}, -2, 4, dtype));
    CHECK(m.mean == doctest::Approx(1).epsilon(0.02));
    CHECK(m.variance == doctest::Approx(3).epsilon(0.02));
    CHECK(m.least >= -2);
    CHECK(m.least < -1.99);
    CHECK(m.most < 4);
    CHECK(m.most > 3.99);
  }
}

TEST_CASE("uniform numbers never reach the upper end") {
  Generator generator(2);
  // No float lies between the bounds, so that rounding could give the upper bound, which is excluded.
  const float next = std::nextafter(1.0f, 2.0f);
  const auto values = generator.uniform({1000}, 1, next).to_vector<float>();
  CHECK(std::count(values.begin(), values.end(), 1.0f) == 1000);
  CHECK(generator.uniform({3}, 5, 5).to_vector<float>() == std::vector<float>(3, 5));
  const double most = std::numeric_limits<double>::max();
  CHECK(std::isfinite(moments_of(generator.uniform({100}, -most, most, DType::f64)).most));
}

TEST_CASE("normal numbers have the moments and tails of a bell") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Generator generator(3);
    const NDArray drawn = generator.normal({kMany}, 5, 2, dtype);
    const Moments m = moments_of(drawn);
    CHECK(m.mean == doctest::Approx(5).epsilon(0.005));
    CHECK(m.variance == doctest::Approx(4).epsilon(0.02));
    const auto values = drawn.astype(DType::f64).to_vector<double>();
    const auto within = [&](double deviations) {
      return static_cast<double>(std::count_if(values.begin(), values.end(),
                                               [&](double x) { return std::abs(x - 5) < 2 * deviations; })) /
             static_cast<double>(kMany);
    };
    CHECK(within(1) == doctest::Approx(0.6827).epsilon(0.01));
    CHECK(within(2) == doctest::Approx(0.9545).epsilon(0.005));
    CHECK(within(3) == doctest::Approx(0.9973).epsilon(0.001));
    double neighbours = 0;  // the covariance, times kMany, of the two numbers that are drawn as a pair
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      neighbours += (values[i] - 5) * (values[i + 1] - 5);
    CHECK(std::abs(neighbours / static_cast<double>(kMany)) < 0.05);
  }
}

// Draws are vectorised. They must equal numbers that are computed one by one from the words of philox().
TEST_CASE("every draw is made of its own words") {
  // kStart is chosen so that the low word of the generator's counter overflows.
  constexpr std::uint64_t kSeed = 0x123456789abcdef, kStart = 0xfffffffe;
  const auto word = [](std::size_t i) {
    const std::uint64_t at = kStart + i / 4;
    return philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0},
                  {static_cast<std::uint32_t>(kSeed), static_cast<std::uint32_t>(kSeed >> 32)})[i % 4];
  };
  const auto wide = [&](std::size_t i) { return word(2 * i) | std::uint64_t{word(2 * i + 1)} << 32; };
  const auto unit = [&](std::size_t i) { return static_cast<double>(wide(i) >> 11) * 0x1p-53; };
  const auto draw = [&]() {
    Generator generator(kSeed);
    generator.set_position(kStart);
    return generator;
  };
  __extension__ using Wide = unsigned __int128;
  const auto below = [&](std::size_t i, std::uint64_t count) {
    return static_cast<std::int64_t>(Wide{wide(i)} * count >> 64);
  };
  for (const std::int64_t n : {1, 7, 256, 1000, 33'000}) {
    CAPTURE(n);
    const auto u32 = draw().uniform({n}).to_vector<float>();
    const auto u64 = draw().uniform({n}, 0, 1, DType::f64).to_vector<double>();
    const auto n32 = draw().normal({n}, 1, 2).to_vector<float>();
    const auto n64 = draw().normal({n}, 1, 2, DType::f64).to_vector<double>();
    const auto thirds = draw().bernoulli({n}, 1.0 / 3, DType::u8).to_vector<std::uint8_t>();
    const auto integers = draw().integers({n}, -5, 1'000'000'000'000).to_vector<std::int64_t>();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::size_t pair = i / 2 * 2;
      const auto normal = [&](double positive, double turn) {
        const double angle = 2 * std::numbers::pi * turn, radius = std::sqrt(-2 * std::log(positive));
        return 1 + 2 * radius * (i % 2 ? std::sin(angle) : std::cos(angle));
      };
      const double small =
          normal(static_cast<float>((word(pair) + 1.0) * 0x1p-32), (word(pair + 1) >> 8) * 0x1p-24);
      const double large = normal(1 - unit(pair), unit(pair + 1));
      wrong += u32[i] != static_cast<float>((word(i) >> 8) * 0x1p-24);
      wrong += u64[i] != unit(i);
      wrong += !(std::abs(n32[i] - small) <= 1e-5);
      wrong += !(std::abs(n64[i] - large) <= 1e-14);
      wrong += thirds[i] != (word(i) * 0x1p-32 < 1.0 / 3);
      wrong += integers[i] != below(i, 1'000'000'000'005) - 5;
    }
    CHECK(wrong == 0);
    std::vector<std::int64_t> shuffled(static_cast<std::size_t>(n));
    std::iota(shuffled.begin(), shuffled.end(), 0);
    for (std::size_t i = shuffled.size() - 1; i > 0; --i)
      std::swap(shuffled[i], shuffled[static_cast<std::size_t>(below(i, i + 1))]);
    CHECK(draw().permutation(n).to_vector<std::int64_t>() == shuffled);
  }
}

TEST_CASE("bernoulli and integers") {
  Generator generator(4);
  CHECK(moments_of(generator.bernoulli({kMany}, 0.3)).mean == doctest::Approx(0.3).epsilon(0.02));
  CHECK(moments_of(generator.bernoulli({100}, 0, DType::boolean)).most == 0);
  CHECK(moments_of(generator.bernoulli({100}, 1, DType::u8)).least == 1);
  std::vector<int> seen(6);
  for (std::int64_t x : generator.integers({60'000}, -2, 4).to_vector<std::int64_t>()) {
    REQUIRE(x >= -2);
    REQUIRE(x < 4);
    ++seen[static_cast<std::size_t>(x + 2)];
  }
  for (int count : seen) CHECK(count == doctest::Approx(10'000).epsilon(0.05));
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = -(least + 1);
  const Moments wide = moments_of(generator.integers({kMany}, least, most));
  CHECK(wide.least < 0.99 * static_cast<double>(least));
  CHECK(wide.most > 0.99 * static_cast<double>(most));
  CHECK(moments_of(generator.integers({1000}, 0, 256, DType::u8)).most > 240);
}

TEST_CASE("permutations hold every number once") {
  Generator generator(5);
  for (std::int64_t n : {0, 1, 2, 7, 1000}) {
    auto values = generator.permutation(n).to_vector<std::int64_t>();
    CHECK((n < 1000 || !std::is_sorted(values.begin(), values.end())));
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < n; ++i) CHECK(values[static_cast<std::size_t>(i)] == i);
  }
  std::vector<int> first(3);
  for (int i = 0; i < 3000; ++i)
    ++first[static_cast<std::size_t>(generator.permutation(3)[0].item<std::int64_t>())];
  for (int count : first) CHECK(count == doctest::Approx(1000).epsilon(0.15));
}

TEST_CASE("the seed and the order of calls are all that counts") {
  const auto draw = [](std::uint64_t seed) {
    Generator generator(seed);
    const NDArray a = generator.uniform({100'001}), b = generator.normal({33}), c = generator.permutation(50);
    std::vector<double> all = a.astype(DType::f64).to_vector<double>();
    for (const NDArray& more : {b, c}) {
      const auto values = more.astype(DType::f64).to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const auto expected = draw(7);
  CHECK(expected != draw(8));
  CHECK(expected != draw(7 + (std::uint64_t{1} << 32)));
  for (const EngineOptions& options : {EngineOptions{.scheduler = Scheduler::naive},
                                       EngineOptions{.scheduler = Scheduler::threaded, .workers = 1},
                                       EngineOptions{.scheduler = Scheduler::threaded, .workers = 4},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 9}}) {
    Engine engine(options);
    EngineScope scope(engine);
    CHECK(draw(7) == expected);
  }
}

TEST_CASE("draws do not repeat one another, and a saved position resumes") {
  Generator generator(11);
  const auto first = generator.uniform({5}).to_vector<float>();
  const std::uint64_t position = generator.position();
  CHECK(position == 2);
  const auto second = generator.uniform({5}).to_vector<float>();
  CHECK(first != second);
  Generator resumed(generator.seed());
  resumed.set_position(position);
  CHECK(resumed.uniform({5}).to_vector<float>() == second);
  const auto longer = Generator(11).uniform({8}).to_vector<float>();
  CHECK(std::equal(first.begin(), first.end(), longer.begin()));
}

TEST_CASE("generators that are split or jump draw numbers of their own, which repeat") {
  using Numbers = std::vector<float>;
  Generator first(5), second(5);
  std::vector<Generator> ones = first.split(3), others = second.split(3);
  for (Generator& one : first.split(2)) ones.push_back(one);
  ones.push_back(first);
  ones.push_back(first.jumped());
  ones.push_back(first.jumped(2));
  std::set<Numbers> drawn;
  for (Generator one : ones) drawn.insert(one.uniform({8}).to_vector<float>());
  CHECK(drawn.size() == ones.size());
  for (std::size_t i = 0; i < others.size(); ++i) CHECK(others[i].seed() == ones[i].seed());
  Generator copy = first.jumped(0), same = first;
  CHECK(copy.uniform({8}).to_vector<float>() == same.uniform({8}).to_vector<float>());
  CHECK(first.jumped(3).position() == first.position() + 3 * (std::uint64_t{1} << 40));
  CHECK_THROWS_WITH_AS(first.split(0), "split: parts is 0; wanted 1 or more", InvalidArgument);
  CHECK_THROWS_WITH_AS(first.jumped(-1), "jumped: times is -1; wanted 0 to 16777215", InvalidArgument);
  CHECK_THROWS_AS(first.jumped(std::int64_t{1} << 24), InvalidArgument);
}

TEST_CASE("the thread's own generator is reseeded") {
  manual_seed(42);
  const auto a = default_generator().uniform({4}).to_vector<float>();
  manual_seed(42);
  CHECK(default_generator().uniform({4}).to_vector<float>() == a);
  CHECK(Generator(42).uniform({4}).to_vector<float>() == a);
}

TEST_CASE("bad distributions throw at the call and draw nothing") {
  Generator g(1);
  CHECK_THROWS_AS(g.uniform({1}, 2, 1), InvalidArgument);
  CHECK_THROWS_AS(g.uniform({1}, 0, INFINITY), InvalidArgument);
  CHECK_THROWS_AS(g.uniform({1}, -1e39, 1e39), InvalidArgument);
  CHECK_THROWS_AS(g.normal({1}, 0, 1e39), InvalidArgument);
  CHECK_THROWS_AS(g.uniform({1}, 0, 1, DType::i32), InvalidArgument);
  CHECK_THROWS_AS(g.normal({1}, 0, -1), InvalidArgument);
  CHECK_THROWS_AS(g.normal({1}, NAN, 1), InvalidArgument);
  CHECK_THROWS_AS(g.bernoulli({1}, 1.5), InvalidArgument);
  CHECK_THROWS_AS(g.bernoulli({1}, NAN), InvalidArgument);
  CHECK_THROWS_AS(g.integers({1}, 3, 3), InvalidArgument);
  CHECK_THROWS_AS(g.integers({1}, -1, 3, DType::u8), InvalidArgument);
  CHECK_THROWS_AS(g.integers({1}, 0, 257, DType::u8), InvalidArgument);
  CHECK_THROWS_AS(g.integers({1}, 0, 2, DType::f32), InvalidArgument);
  CHECK_THROWS_AS(g.permutation(-1), InvalidArgument);
  CHECK(g.position() == 0);
}
