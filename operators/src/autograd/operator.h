// What the rules of all operators share: checks, results, kernels, and the gradient of broadcasting.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

#include "kernels/kernel_table.h"

namespace heddle::operators_detail {

// An undetermined array on the device and engine of `like`, whatever engine is this thread's current one.
NDArray make_result(const NDArray& like, const Shape& shape, DType dtype);

// Throws InvalidArgument unless all arrays are defined and on one device and engine.
void check_arrays(const char* op, std::span<const NDArray> arrays);
void check_arrays(const char* op, std::initializer_list<const NDArray*> arrays);

// Throws InvalidArgument "softmax: dtype i32; wanted a floating one".
void check_floating(const char* op, const NDArray& array);

// f16 and bf16 are computed as f32 by operators that sum: `x` as f32, on the tape, if it is one of them; else x itself.
NDArray wide(const NDArray& x);

// broadcast_shapes; its error names the operator.
Shape broadcast_for(const char* op, const Shape& a, const Shape& b);

// The kernel of `op` for the device that `array` is on.
template <class Fn> Fn* kernel_for(const char* op, const NDArray& array) {
  return kernels().find<Fn>(op, array.device().kind);
}

// Gradients of weights come before those that the backward pass goes on with: where ranks add theirs, that takes place
// while the pass goes on, and not after it.
inline constexpr int kWeightsFirst = 1;

// array_push for lists that are not known when the rule is written.
template <class F>
void push_op(const char* name, std::span<const NDArray> reads, std::span<const NDArray> writes, F&& fn,
             int priority = 0) {
  Engine& engine = writes.empty() ? reads.front().engine() : writes.front().engine();
  Access access = array_access(name, reads, writes);
  access.priority = priority;
  engine.push(std::forward<F>(fn), access, CallSite::current());
}

// The gradient of an input of `shape` that was broadcast: sums over the axes that broadcasting made or stretched.
NDArray sum_to_shape(const NDArray& gradient, const Shape& shape);

}  // namespace heddle::operators_detail
