// Operators that sort, search and count on a GPU have the bits of the CPU.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/shape_ops.h>
#include <heddle/sorting.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

Pair random_array(Random& random, const Shape& shape, DType dtype) {
  const NDArray x = random_values(random, shape, dtype);
  return {x, x.copy_to(gpu(0))};
}

TEST_CASE("sort, argsort, topk and kthvalue order NaN, zeros and equal elements as the CPU does") {
  const Shape shapes[] = {{0}, {1}, {2, 31}, {3, 32}, {33, 2}, {5, 1, 3}, {1023}, {5, 1100}, {2049}, {4100}};
  int seed = 0;
  for (const Shape& shape : shapes) {
    for (const DType dtype :
         {kAllDTypes[seed % std::size(kAllDTypes)], kAllDTypes[(seed + 6) % std::size(kAllDTypes)]}) {
      Random random(static_cast<std::uint64_t>(++seed));
      CAPTURE(shape.to_string());
      CAPTURE(name_of(dtype));
      const Pair x = random_array(random, shape, dtype);
      const int axis = static_cast<int>(random() % static_cast<std::uint64_t>(shape.size()));
      const bool falls = seed % 2;
      CHECK(same_bits(sort(x.here, axis, falls), sort(x.there, axis, falls)));
      CHECK(same_bits(argsort(x.here, axis, falls), argsort(x.there, axis, falls)));
      if (x.here.size() == 0) continue;
      const std::int64_t k = (shape[axis] + 1) / 2;
      const auto here = topk(x.here, k, axis, falls), there = topk(x.there, k, axis, falls);
      CHECK((same_bits(here[0], there[0]) && same_bits(here[1], there[1])));
      CHECK(same_bits(kthvalue(x.here, k, axis)[1], kthvalue(x.there, k, axis)[1]));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("many short lines are sorted, several by a block") {
  for (const Shape& shape :
       {Shape{600, 1}, {1100, 2}, {700, 3}, {129, 8}, {65, 17}, {33, 33}, {17, 64}, {9, 128}, {4, 512}}) {
    for (const DType dtype : {DType::i8, DType::f64}) {
      Random random(static_cast<std::uint64_t>(shape[0]));
      CAPTURE(shape.to_string());
      CAPTURE(name_of(dtype));
      const Pair x = random_array(random, shape, dtype);
      CHECK(same_bits(argsort(x.here, 1), argsort(x.there, 1)));
      CHECK(same_bits(sort(x.here, 1, true), sort(x.there, 1, true)));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("every dtype is sorted, in short lines and in long ones") {
  for (const DType dtype : kAllDTypes) {
    Random random(static_cast<std::uint64_t>(dtype) + 50);
    CAPTURE(name_of(dtype));
    for (const std::int64_t length : {100, 2500}) {
      const Pair x = random_array(random, {length}, dtype);
      CHECK(same_bits(argsort(x.here), argsort(x.there)));
      CHECK(same_bits(sort(x.here, -1, true), sort(x.there, -1, true)));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("the gradients of sort and topk are the CPU's") {
  Random random(4);
  std::vector<std::vector<float>> found;
  const NDArray values = (random_values(random, {3, 70}, DType::i16)).astype(DType::f32);
  for (const Device device : {cpu(), gpu(0)}) {
    NDArray x = values.copy_to(device);
    x.set_requires_grad();
    (sort(x) * topk(x, 70)[0]).backward((arange(210, DType::f32) / 3).reshape({3, 70}).copy_to(device));
    found.push_back(x.grad().to_vector<float>());
  }
  CHECK(found[0] == found[1]);
  CHECK(problems() == "");
}

TEST_CASE("unique finds the CPU's values, places and counts") {
  int seed = 0;
  for (const DType dtype : kAllDTypes) {
    for (const std::int64_t count : {0, 1, 60, 2100}) {
      Random random(static_cast<std::uint64_t>(++seed));
      CAPTURE(name_of(dtype));
      CAPTURE(count);
      const Pair x = random_array(random, {count}, dtype);
      const bool equal_nan = seed % 2;
      CHECK(same_bits(unique(x.here, equal_nan), unique(x.there, equal_nan)));
      const auto here = unique_all(x.here, equal_nan), there = unique_all(x.there, equal_nan);
      for (std::size_t i = 0; i < 4; ++i) CHECK(same_bits(here[i], there[i]));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("searchsorted and isin find the CPU's places") {
  for (int seed = 0; seed < 26; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
    const NDArray sorted = sort(random_values(random, {seed % 4 == 0 ? 0 : 200}, dtype));
    const Pair list{sorted, sorted.copy_to(gpu(0))}, values = random_pair(random, {20, 9}, dtype);
    for (const bool right : {false, true})
      CHECK(same_bits(searchsorted(list.here, values.here, right),
                      searchsorted(list.there, values.there, right)));
    CHECK(same_bits(isin(values.here, list.here), isin(values.there, list.there)));
  }
  CHECK(problems() == "");
}

TEST_CASE("histogram counts the CPU's bins") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32}) {
    for (const std::int64_t bins : {1, 7, 100, 3000}) {
      Random random(static_cast<std::uint64_t>(bins));
      CAPTURE(name_of(dtype));
      CAPTURE(bins);
      const Pair x = random_array(random, {3000}, dtype);
      const auto here = histogram(x.here, bins, -50.0, 49.0), there = histogram(x.there, bins, -50.0, 49.0);
      CHECK(same_bits(here[0], there[0]));
      CHECK(same_bits(here[1], there[1]));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("bounds of a histogram and fractions of a quantile that are refused are the CPU's errors") {
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return without_call_site(error.what());
    }
    return std::string();
  };
  for (const double bound : {INFINITY, -INFINITY}) {
    const auto counts = [&](Device on) {
      const NDArray x = ones({4}, DType::f32, on);
      histogram(x, 3, std::min(bound, 0.0), std::max(bound, 0.0))[0].wait();
    };
    const std::string wanted = message([&] { counts(cpu()); });
    CHECK(!wanted.empty());
    CHECK(message([&] { counts(gpu(0)); }) == wanted);
  }
  CHECK(problems() == "");
}

}  // namespace
