// What the ops of recurrent networks on GPUs, forward and backward, share.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <heddle/kernel_context.h>

#include "cuda/gemm_problem.h"
#include "cuda/scratch.h"
#include "families/recurrent/cuda/kernels.h"
#include "families/recurrent/kernels.h"

namespace heddle::cuda_kernels {

// Scratch memory of an op, in as many blocks as it takes.
class Blocks {
 public:
  explicit Blocks(const KernelContext& context) : context_(context) {}
  void* take(long long count, DType dtype);

 private:
  const KernelContext& context_;
  std::vector<std::unique_ptr<Scratch>> all_;
};

// The problem in plain types. `report`: a length out of range fails the op; else it is as 0.
Recurrence recurrence_of(const KernelContext& context, const RecurrentProblem& p, const RecurrentArrays& in,
                         Blocks& memory, bool report);

// Products of a recurrence's operands.
class Products {
 public:
  Products(const KernelContext& context, const Recurrence& r, Blocks& memory)
      : context_(context), r_(r), memory_(memory) {}

  DType dtype() const { return r_.f64 ? DType::f64 : DType::f32; }  // of arrays
  DType operands() const { return static_cast<DType>(r_.operands); }
  bool rounds() const { return operands() != dtype(); }
  // The array as an operand: its own memory, or a rounded copy. Null if it is undefined or empty.
  const void* operand(const NDArray& array) const;
  // Address of an element of operands, and of arrays.
  const void* in_operand(const void* data, long long elements) const {
    return moved(data, elements, operands());
  }
  void* in_array(void* data, long long elements) const {
    return const_cast<void*>(moved(data, elements, dtype()));
  }
  // d (m, n) = a (m, k) * b (k, n) + beta * d. Strides are between rows in memory.
  void multiply(long long m, long long n, long long k, GemmMatrix a, GemmMatrix b, void* d,
                long long d_stride, double beta = 0) const;

 private:
  static const void* moved(const void* data, long long elements, DType dtype) {
    return static_cast<const std::byte*>(data) + elements * static_cast<long long>(size_of(dtype));
  }
  const KernelContext& context_;
  const Recurrence& r_;
  Blocks& memory_;
};

}  // namespace heddle::cuda_kernels
