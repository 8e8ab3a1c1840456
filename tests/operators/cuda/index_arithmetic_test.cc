// Kernels find elements of arrays that have more elements than 32 bits count. No such array is made: the functions are called alone.
#include <doctest/doctest.h>

#include "cuda/divide.h"
#include "cuda/row_keys.h"
#include "families/scan/cuda/products.h"

using namespace heddle::cuda_kernels;

namespace {

constexpr long long k32 = 1ll << 32;

TEST_CASE("divisions of indices are exact for numbers of 32 bits and of more") {
  for (const long long by : {1ll, 2ll, 7ll, 0x7fffffffll, 0x80000000ll, k32 - 1, k32, k32 + 3, k32 * 1000}) {
    for (const long long value : {0ll, 1ll, 6ll, 0x7fffffffll, 0x80000001ll, k32 - 1, k32, k32 * 7 + 5}) {
      CAPTURE(value);
      CAPTURE(by);
      const Quotient found = divide(value, by);
      CHECK(found.whole == value / by);
      CHECK(found.rest == value % by);
    }
  }
}

TEST_CASE("gradients of products take lines in groups of at most 1 GB") {
  CHECK(group_of(10, 100, 2400) == 10);
  CHECK(group_of(1 << 20, 100, 2400) == (4 << 20) / 100);
  CHECK(group_of(1 << 20, 10000, 240000) == 1024);
  CHECK(group_of(1 << 20, 1 << 20, 24 << 20) == 42);
  CHECK(group_of(3, k32, k32 * 24) == 1);
}

TEST_CASE("the end of a run of equal keys is found") {
  for (const long long before : {0ll, 3ll, k32}) {
    for (const long long length : {1ll, 2ll, 3ll, 8ll, 9ll, 100ll, k32 + 1}) {
      for (const long long behind : {0ll, 1ll, 50ll, k32}) {
        const long long end = before + length, count = end + behind;
        const auto key = [=](long long i) {
          REQUIRE((i >= 0 && i < count));
          return i < before ? 1 : i < end ? 2 : 3;
        };
        CHECK(run_end(before, count, key) == end);
      }
    }
  }
}

TEST_CASE("elements of images are found whose sizes or numbers need more than 32 bits") {
  const long long shapes[][3] = {{1, 1, k32}, {1, k32 + 1, 2}, {k32, 1, 1},
                                 {3, 5, 7},   {1, 1, 1},       {1, 40000, 70000}};
  for (const auto& sizes : shapes) {
    for (const long long index : {0ll, 5ll, 100ll, 0x7fffffffll, 0x80000000ll, k32 - 1, k32, k32 * 3 + 17}) {
      CAPTURE(sizes[0]);
      CAPTURE(sizes[1]);
      CAPTURE(index);
      const Element found = element_of(index, sizes);
      CHECK((found.d < sizes[0] && found.h < sizes[1] && found.w < sizes[2]));
      CHECK(((found.plane * sizes[0] + found.d) * sizes[1] + found.h) * sizes[2] + found.w == index);
    }
  }
}

}  // namespace
