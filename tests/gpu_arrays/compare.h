// Arrays of random values on the CPU and on a GPU, and comparison of results.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

namespace heddle::test {

using Random = std::mt19937_64;

// Two arrays with the same values and layout: one on the CPU, one on gpu(0) or another device.
struct Pair {
  NDArray here, there;
};

Shape random_shape(Random& random);  // with 0, 1, about 32 and about 1,024 elements, and some of several axes
DType random_dtype(Random& random);
// With infinities, NaN, both zeros, huge and tiny numbers, integers.
NDArray random_values(Random& random, const Shape& shape, DType dtype);
// An array that broadcasts to `shape`, sometimes with steps, reversed or transposed.
Pair random_pair(Random& random, const Shape& shape, DType dtype, Device there = gpu(0));

// Equal dtypes, shapes and bits, and `there` is on gpu(0). NaN may have any bits: IEEE leaves them open, and x86 and GPUs differ.
bool same_bits(const NDArray& here, const NDArray& there);
// Equal shapes; values differ by what functions of libm may differ by.
bool near(const NDArray& here, const NDArray& there);

// Calls `call` with both and compares the results. If the CPU refuses the arguments, the GPU has to refuse them with the same
// words.
template <class F> bool compare(const F& call, const Pair& a, bool exact) {
  NDArray here;
  std::string refusal;
  try {
    here = call(a.here);
  } catch (const InvalidArgument& error) {
    refusal = error.what();
  }
  if (!refusal.empty()) {
    CHECK_THROWS_WITH_AS(call(a.there), refusal.c_str(), InvalidArgument);
    return true;
  }
  const NDArray there = call(a.there);
  return exact ? same_bits(here, there) : near(here, there);
}

}  // namespace heddle::test
