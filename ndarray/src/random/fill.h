// Loops that fill arrays with random numbers: block n has the four words of philox() for the counter start + n.
#pragma once

#include <cstdint>

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle::ndarray_detail {

// Uniform in [low, high) of f32 or f64. `last` is the largest number of y's dtype below high: rounding may reach high.
void fill_uniform(const NDArray& y, RandomBlocks stream, double low, double high, double last);
void fill_normal(const NDArray& y, RandomBlocks stream, double mean, double stddev);  // y is f32 or f64
// Words below it make 1.
std::uint64_t threshold_of(double probability);
void fill_bernoulli(const NDArray& y, RandomBlocks stream, double probability);  // 0 and 1 in any dtype
// Numbers from low to low + count - 1 in any integer dtype.
void fill_integers(const NDArray& y, RandomBlocks stream, std::int64_t low, std::uint64_t count);
void fill_permutation(const NDArray& y, RandomBlocks stream);  // y is i64

}  // namespace heddle::ndarray_detail
