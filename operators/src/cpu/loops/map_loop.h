// The loop of elementwise kernels, over runs of elements of unknown types.
#pragma once

#include <cstddef>
#include <cstdint>

#include <heddle/elementwise.h>

#include "cpu/loops/function_ref.h"

namespace heddle::cpu_kernels {

// A UnaryRun computes y[i] = f(x[i]), a BinaryRun y[i] = f(a[i], b[i]), for n elements. A step is the
// distance between elements; an operand with step 0 is one value. y is an operand itself, or overlaps none.
using UnaryRun =
    FunctionRef<void(const void* x, std::int64_t x_step, void* y, std::int64_t y_step, std::int64_t n)>;
using BinaryRun = FunctionRef<void(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step,
                                   void* y, std::int64_t y_step, std::int64_t n)>;

// An array, or a scalar in the element type of the other operand.
struct Source {
  Source(const Operand& operand, const void* scalar)
      : array(operand.is_array ? &operand.array : nullptr),
        data(array ? array->data<const std::byte>() : static_cast<const std::byte*>(scalar)) {}
  const NDArray* array;
  const std::byte* data;
};

// Calls `run` for all elements of y. `size` is the number of bytes of an operand's element.
void map_loop(const NDArray& x, const NDArray& y, UnaryRun run);
void map_loop(const Source& a, const Source& b, std::size_t size, const NDArray& y, BinaryRun run);

}  // namespace heddle::cpu_kernels
