// The sample kernels against serial oracles. Runs on the emulated GPU, with several seeds, and on a real one.
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "samples/kernels.h"
#include "samples/memory.h"
#include "samples/samples.h"
#include "samples/seeds.h"

namespace heddle::test {
namespace {

std::vector<float> ramp(std::size_t count, float scale) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(i * 37 % 101);
  return values;
}

TEST_CASE("vector add") {
  for_each_seed([] {
    for (const std::size_t count : {1u, 31u, 256u, 5000u}) {
      const std::vector<float> a = ramp(count, 1), b = ramp(count, 0.5f);
      const OnDevice<float> on_a(a), on_b(b), out(count);
      const TestStream stream;
      check(
          vector_add(stream, Bug::none, on_a.data(), on_b.data(), out.data(), static_cast<long long>(count)));
      const std::vector<float> got = out.values(stream);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(got[i] == a[i] + b[i]);
    }
  });
}

TEST_CASE("sum of all elements by shuffles, shared memory and atomics") {
  for_each_seed([] {
    for (const std::size_t count : {1u, 255u, 3000u}) {
      std::vector<double> values(count);
      std::iota(values.begin(), values.end(), 1.0);
      const OnDevice<double> in(values), total(std::vector<double>{0});
      const TestStream stream;
      check(sum(stream, Bug::none, in.data(), total.data(), static_cast<long long>(count), 5));
      CHECK(total.values(stream)[0] == std::accumulate(values.begin(), values.end(), 0.0));
    }
  });
}

TEST_CASE("softmax of rows") {
  for_each_seed([] {
    for (const int columns : {1, 100, 300}) {
      constexpr int rows = 5;
      const std::vector<float> in = ramp(static_cast<std::size_t>(rows * columns), 0.05f);
      const OnDevice<float> on(in), out(in.size());
      const TestStream stream;
      check(softmax_rows(stream, Bug::none, on.data(), out.data(), rows, columns));
      const std::vector<float> got = out.values(stream);
      for (int row = 0; row < rows; ++row) {
        const float* line = in.data() + row * columns;
        double sum = 0;
        for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(line[i]));
        for (int i = 0; i < columns; ++i) {
          const double want = std::exp(static_cast<double>(line[i])) / sum;
          REQUIRE(std::abs(got[static_cast<std::size_t>(row * columns + i)] - want) <= 1e-5 * want);
        }
      }
    }
  });
}

TEST_CASE("transpose through shared memory") {
  for_each_seed([] {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {32, 64}, {45, 70}}) {
      const std::vector<float> in = ramp(static_cast<std::size_t>(rows * columns), 1);
      const OnDevice<float> on(in), out(in.size());
      const TestStream stream;
      check(transpose(stream, Bug::none, on.data(), out.data(), rows, columns));
      const std::vector<float> got = out.values(stream);
      for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < columns; ++x) {
          REQUIRE(got[static_cast<std::size_t>(x * rows + y)] ==
                  in[static_cast<std::size_t>(y * columns + x)]);
        }
      }
    }
  });
}

TEST_CASE("histogram by atomics") {
  for_each_seed([] {
    std::vector<int> values(4000), want(kBins);
    for (std::size_t i = 0; i < values.size(); ++i)
      ++want[static_cast<std::size_t>(values[i] = static_cast<int>(i * i % kBins))];
    const OnDevice<int> in(values), counts(std::vector<int>(kBins, 0));
    const TestStream stream;
    check(histogram(stream, Bug::none, in.data(), counts.data(), static_cast<long long>(values.size()), 4));
    CHECK(counts.values(stream) == want);
  });
}

TEST_CASE("scan in three launches") {
  for_each_seed([] {
    for (const std::size_t count : {1u, 256u, 3001u}) {
      std::vector<int> values(count), want(count);
      std::iota(values.begin(), values.end(), -5);
      std::partial_sum(values.begin(), values.end(), want.begin());
      const OnDevice<int> in(values), out(count), sums(kBlock);
      const TestStream stream;
      check(scan(stream, Bug::none, in.data(), out.data(), sums.data(), static_cast<long long>(count)));
      CHECK(out.values(stream) == want);
    }
  });
}

}  // namespace
}  // namespace heddle::test
