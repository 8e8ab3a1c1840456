// Matrix products of f16 and bf16 with sums in f32, on the calling thread only.
#pragma once

#include <cstdint>

#include <heddle/half.h>

#include "cpu/gemm.h"

namespace heddle::cpu_kernels {

// c (m, n; row stride ldc) = a (m, k) * b (k, n), added to c if `accumulate`. H: BFloat16, computed by the machine's
// instructions for it if there are any, or Float16. Others are widened to f32. Any of m, n, k may be 0.
template <class H>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<H> a, GemmOperand<H> b, float* c,
          std::int64_t ldc, bool accumulate) requires is_half_type<H>;

// The same, rounded once to H.
template <class H>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<H> a, GemmOperand<H> b, H* c,
          std::int64_t ldc) requires is_half_type<H>;

// `count` elements from `from` to `to`, widened or narrowed by all workers.
template <class H> void widen_all(const H* from, float* to, std::int64_t count);
template <class H> void narrow_all(const float* from, H* to, std::int64_t count);

}  // namespace heddle::cpu_kernels
