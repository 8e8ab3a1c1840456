// A reduction: which elements make up each result is decided here, how they are joined by loops that know their types.
#pragma once

#include <cstddef>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// The loops of one way of joining elements of one type (loops.h makes them). A partial result has at most 8 bytes. The order in
// which elements are joined depends on shapes alone, so that results do not depend on the number of workers.
struct ReduceLoops {
  static constexpr std::int64_t kRows =
      32;  // rows joined one after the other; more rows are joined by halves

  std::size_t element, partial, result;  // bytes of each
  // n partial results of no element.
  void (*start)(void* partial, std::int64_t n);
  // The partial result of n elements, 1 or more, that lie `step` elements apart.
  void (*run)(const void* x, std::int64_t step, std::int64_t n, void* partial);
  // Each element of four rows, or of one, into one of n neighbouring partial results.
  void (*four_rows)(const void* const* rows, void* partial, std::int64_t n);
  void (*one_row)(const void* row, void* partial, std::int64_t n);
  // n partial results into n others.
  void (*join)(const void* from, void* into, std::int64_t n);
  // n results of `count` elements each, `step` results apart.
  void (*finish)(const void* partial, std::int64_t n, std::int64_t count, void* y, std::int64_t step);
  // n elements that lie `step` apart, together.
  void (*pack)(const void* x, std::int64_t step, std::int64_t n, void* to);
};

void reduce(const NDArray& x, const NDArray& y, const Dims& axes, const ReduceLoops& loops);

}  // namespace heddle::cpu_kernels
