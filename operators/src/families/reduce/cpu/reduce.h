// The driver of reductions: it decides which elements make up each result; loops that know the types join
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// The loops of one reduction for one element type (loops.h makes them). A partial result has at most 8 bytes.
// The order in which elements are joined depends on shapes alone, so that results do not depend on the number
// of workers.
struct ReduceLoops {
  static constexpr std::int64_t kRows = 32;  // most rows joined one by one; more are joined by halves

  std::size_t element, partial, result;  // bytes of an element, of a partial result, of a result
  // Writes n partial results of no element.
  void (*start)(void* partial, std::int64_t n);
  // Writes the partial result of n elements, 1 or more, `step` elements apart.
  void (*run)(const void* x, std::int64_t step, std::int64_t n, void* partial);
  // Joins each element of four rows, or of one row, into one of n adjacent partial results.
  void (*four_rows)(const void* const* rows, void* partial, std::int64_t n);
  void (*one_row)(const void* row, void* partial, std::int64_t n);
  // Joins n partial results into n others.
  void (*join)(const void* from, void* into, std::int64_t n);
  // Writes n results, of `count` elements each, `step` results apart.
  void (*finish)(const void* partial, std::int64_t n, std::int64_t count, void* y, std::int64_t step);
  // Copies n elements, `step` apart, to contiguous memory.
  void (*pack)(const void* x, std::int64_t step, std::int64_t n, void* to);
};

void reduce(const NDArray& x, const NDArray& y, const Dims& axes, const ReduceLoops& loops);

}  // namespace heddle::cpu_kernels
