// Elementwise kernels on f16 and bf16: blocks are converted to f32 on the stack, the loop for f32 runs, and each result
// is rounded once. So no loop is built for the half types, and an operator rounds once, whatever it computes.
#pragma once

#include <functional>

#include <heddle/elementwise.h>

namespace heddle::cpu_kernels {

// y = f(x), and y = f(a, b) where a step is 0 for a scalar, else 1.
template <class R> using HalfUnary = std::function<void(const float* x, R* y, std::int64_t n)>;
template <class R>
using HalfBinary = std::function<void(const float* a, std::int64_t a_step, const float* b,
                                      std::int64_t b_step, R* y, std::int64_t n)>;

// The arrays are of one half dtype; so is y, unless R is bool. Scalars are rounded to that dtype first.
void map_half(const NDArray& x, const NDArray& y, const HalfUnary<float>& run);
void map_half(const NDArray& x, const NDArray& y, const HalfUnary<bool>& run);
void map_half(const Operand& a, const Operand& b, const NDArray& y, const HalfBinary<float>& run);
void map_half(const Operand& a, const Operand& b, const NDArray& y, const HalfBinary<bool>& run);

}  // namespace heddle::cpu_kernels
