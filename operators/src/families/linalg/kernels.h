// Kernel types of linear algebra, and errors that the values of a matrix cause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/error.h>
#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Arguments and results: matrices, or vectors such as their diagonals, of one batch shape; contiguous, f32 or
// f64. Errors begin with `op`, a literal. Each operator defines what `flag` and `number` mean.
struct LinalgCall {
  const char* op;
  std::vector<NDArray> in, out;
  bool flag = false;
  double number = 0;
};

using LinalgKernel = void(const KernelContext& context, const LinalgCall& call);

}  // namespace heddle

// One text for the CPU and for GPUs. Names have internal linkage, since the files of the CPU's kernels are compiled for several kinds
// of CPUs.
namespace heddle::linalg_errors {
namespace {

constexpr int kNotFinite = -1;  // an info beside LAPACK's

// What is wrong with a matrix for which LAPACK's routine returned `info`.
using Explanation = std::string (*)(int info);

inline std::string singular(int info) {
  const std::string i = std::to_string(info - 1);
  return "is singular: element (" + i + ", " + i + ") of its triangular factor is 0";
}
inline std::string not_positive_definite(int info) {
  return "is not positive definite: its first " + std::to_string(info) + " rows and columns are not";
}
inline std::string not_found(int info) {
  return info == kNotFinite ? "has an element that is not finite" : "did not converge";
}
inline std::string no_singular_values(int) { return "has singular values that did not converge"; }
inline std::string not_solved(int info) {
  return info == kNotFinite ? not_found(info) : no_singular_values(info);
}
inline std::string no_error(int) { return {}; }

// Throws "OP: matrix (1, 0) WHAT" for matrix `index` of an array of this shape.
[[noreturn]] inline void refuse(const std::string& op, const Shape& shape, std::int64_t index,
                                const std::string& what) {
  Dims position = Dims::filled(shape.size() - 2, 0);
  for (int axis = position.size() - 1; axis >= 0; --axis) {
    position[axis] = index % shape[axis];
    index /= shape[axis];
  }
  const std::string matrix = position.empty()       ? "the matrix"
                             : position.size() == 1 ? "matrix " + std::to_string(position[0])
                                                    : "matrix " + position.to_string();
  throw Error(with_call_site(op + ": " + matrix + " " + what));
}

}  // namespace
}  // namespace heddle::linalg_errors
