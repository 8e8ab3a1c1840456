// Functions shared by all operators: checks, results, and the push of a kernel.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

#include "core/kernel_table.h"

namespace heddle::operators_detail {

// Makes an array of undetermined values on the device and engine of `like`, not on the thread's current
// engine; in the memory that into() lends, if that memory fits.
NDArray make_result(const NDArray& like, const Shape& shape, DType dtype);

// Throws InvalidArgument unless all arrays are defined and on one device and engine.
void check_arrays(const char* op, std::span<const NDArray> arrays);
void check_arrays(const char* op, std::initializer_list<const NDArray*> arrays);

// Throws InvalidArgument "softmax: dtype i32; wanted a floating one".
void check_floating(const char* op, const NDArray& array);

// For operators that sum and compute f16 and bf16 as f32: returns `x` cast to f32, on the tape, if it has one
// of these dtypes; else x itself.
NDArray wide(const NDArray& x);

// The shape that a and b broadcast to. Throws InvalidArgument, which names the operator, if there is none.
Shape broadcast_for(const char* op, const Shape& a, const Shape& b);

// The kernel of `op` for the device that `array` is on.
template <class Fn> Fn* kernel_for(const char* op, const NDArray& array) {
  return kernels().find<Fn>(op, array.device().kind);
}

// array_push for lists of arrays whose length is not known at compile time.
template <class F>
void push_op(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes, F&& fn,
             int priority = 0, OpCost cost = OpCost::unknown) {
  Access access = array_access(name, reads, writes);
  access.priority = priority;
  if (cost == OpCost::per_element)
    access.brief = ndarray_detail::is_brief(reads) && ndarray_detail::is_brief(writes);
  ndarray_detail::push_for(reads, writes, std::forward<F>(fn), access, CallSite::current());
}

}  // namespace heddle::operators_detail
