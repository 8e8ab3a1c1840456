// The kernels of dropout and of distributions for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels {

// y[i] is x[i] * scale + shift where the mask's element i / inner is not 0, else `dropped`. All are contiguous, f64 if `wide`, else f32.
struct DropoutCall {
  const void *x, *mask;
  void* y;
  long long count, inner;
  double scale, shift, dropped;
  bool wide;
};
// Returns why the kernel could not be launched; null if it was.
const char* launch_dropout(void* stream, const DropoutCall& call);

constexpr int kMostParameters = 4;

// One draw of `count` numbers. A parameter is an array, or a number where `arrays` is null; values of arrays out of their range are
// reported at the place of the parameter times count plus that of the element.
struct DistributionDraw {
  void* y;
  unsigned char dtype;  // of y
  long long count;
  std::uint64_t seed, start;
  int parameters;
  const double* arrays[kMostParameters];
  double numbers[kMostParameters];
  std::uint8_t ranges[kMostParameters];  // ParameterRanges
  FaultSlot* slot;
};
struct DistributionEntry {
  const char* op;
  const char* (*launch)(void* stream, const DistributionDraw& draw);
};
constexpr int kDistributionCount = 6;
extern const DistributionEntry kDistributions[kDistributionCount];

// Indices into rows of n logits, `samples` for each of the rows. Reports the first NaN or infinity of a row at row * (n + 1) plus
// its column, and at column n, with kind 1, that there is none above -infinity.
const char* launch_categorical(void* stream, const double* logits, long long rows, long long n,
                               long long samples, std::uint64_t seed, std::uint64_t start, long long* indices,
                               FaultSlot* slot);

// Draws indices into rows of n weights in proportion to them, `samples` for each of the rows. Faults are reported at the place
// row * (n + 2) + column of a weight that is negative or not finite; at column n, that the sum is infinite; at column n + 1, how many
// weights are above 0. The report's kind is a WeightFault.
struct MultinomialDraw {
  const double* weights;
  long long rows, n, samples;
  bool replacement;
  std::uint64_t seed, start;
  long long* indices;
  FaultSlot* slot;
};
std::size_t multinomial_space(const MultinomialDraw& draw);
const char* launch_multinomial(void* stream, const MultinomialDraw& draw, std::byte* space);

}  // namespace heddle::cuda_kernels
