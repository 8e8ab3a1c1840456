#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/matmul.h>
#include <heddle/products.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/products/contraction.h"

namespace heddle {

using namespace operators_detail;

namespace {

struct Operands {
  NDArray a, b;
  DType dtype;  // dtype of the result
};

// a and b in the dtype to compute in.
Operands converted(const char* op, const NDArray& a, const NDArray& b) {
  check_arrays(op, {&a, &b});
  const DType dtype = product_dtype({&a, &b}), wider = is_half(dtype) ? DType::f32 : dtype;
  return {cast(a, wider), cast(b, wider), dtype};
}

// x with `axis` moved to the end.
NDArray with_last(const NDArray& x, int axis) {
  if (axis == x.ndim() - 1) return x;
  Dims axes;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  axes.push_back(axis);
  return transpose(x, axes);
}

Dims checked_axes(const char* op, const Dims& given, const NDArray& x) {
  Dims axes;
  for (std::int64_t one : given) {
    const int axis = ndarray_detail::axis_of(op, one, x.shape());
    for (std::int64_t known : axes) {
      if (known == axis) {
        throw InvalidArgument(std::string(op) + ": axis " + std::to_string(one) + " is given twice in " +
                              given.to_string());
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

// tensordot() with errors in the name of `op`.
NDArray summed_product(const char* op, const NDArray& given_a, const NDArray& given_b,
                       const Dims& given_a_axes, const Dims& given_b_axes) {
  const auto [a, b, dtype] = converted(op, given_a, given_b);
  const Dims a_axes = checked_axes(op, given_a_axes, a), b_axes = checked_axes(op, given_b_axes, b);
  if (a_axes.size() != b_axes.size()) {
    throw InvalidArgument(std::string(op) + ": " + std::to_string(a_axes.size()) + " axes of a and " +
                          std::to_string(b_axes.size()) + " of b; wanted as many");
  }
  const int axes = a.ndim() + b.ndim() - 2 * a_axes.size();
  if (axes > kMaxDims) {
    throw InvalidArgument(std::string(op) + ": a result of " + std::to_string(axes) + " axes; at most " +
                          std::to_string(kMaxDims));
  }
  Labelled left{a, {}}, right{b, {}};
  for (int i = 0; i < a.ndim(); ++i) left.labels.push_back(i);
  for (int i = 0; i < b.ndim(); ++i) right.labels.push_back(a.ndim() + i);
  std::vector<bool> kept(static_cast<std::size_t>(a.ndim() + b.ndim()), true);
  for (int i = 0; i < a_axes.size(); ++i) {
    const int of_a = static_cast<int>(a_axes[i]), of_b = static_cast<int>(b_axes[i]);
    if (a.shape()[of_a] != b.shape()[of_b]) {
      throw InvalidArgument(std::string(op) + ": axis " + std::to_string(of_a) + " of " +
                            a.shape().to_string() + " and axis " + std::to_string(of_b) + " of " +
                            b.shape().to_string() + " differ in size");
    }
    right.labels[static_cast<std::size_t>(of_b)] = of_a;
    kept[static_cast<std::size_t>(of_a)] = false;
  }
  const auto is_kept = [&](int label) { return kept[static_cast<std::size_t>(label)]; };
  return cast(contract(left, right, is_kept).array, dtype);
}

NDArray one_of_three(const NDArray& x, int axis, std::int64_t i) {
  return slice(x, axis, {.begin = i, .end = i + 1});
}

// x with an axis of size 1 before each axis, or `after` it: (2, 3) becomes (1, 2, 1, 3), or (2, 1, 3, 1).
NDArray spaced(const NDArray& x, int axes, bool after) {
  Shape shape;
  for (int i = 0; i < axes; ++i) {
    const int own = i - (axes - x.ndim());
    const std::int64_t size = own < 0 ? 1 : x.shape()[own];
    shape.push_back(after ? size : 1);
    shape.push_back(after ? 1 : size);
  }
  return reshape(x, shape);
}

NDArray tensordot_by_name(const NDArray& a, const NDArray& b, std::optional<std::int64_t> axes,
                          const std::optional<Dims>& a_axes, const std::optional<Dims>& b_axes, Where at) {
  if (!a_axes && !b_axes) return tensordot(a, b, axes.value_or(2), at);
  if (axes || !a_axes || !b_axes) {
    throw InvalidArgument("tensordot: wanted axes, a number, or both a_axes and b_axes");
  }
  return tensordot(a, b, *a_axes, *b_axes, at);
}

}  // namespace

NDArray vecdot(const NDArray& given_a, const NDArray& given_b, int axis, Where at) {
  const CallSite site(at);
  const auto [a, b, dtype] = converted("vecdot", given_a, given_b);
  const int of_a = ndarray_detail::axis_of("vecdot", axis, a.shape());
  const int of_b = ndarray_detail::axis_of("vecdot", axis, b.shape());
  if (a.shape()[of_a] != b.shape()[of_b]) {
    throw InvalidArgument("vecdot: axis " + std::to_string(axis) + " has sizes " +
                          std::to_string(a.shape()[of_a]) + " and " + std::to_string(b.shape()[of_b]));
  }
  if (a.ndim() == 1 && b.ndim() == 1) return cast(matmul(a, b), dtype);
  const NDArray left = with_last(a, of_a), right = with_last(b, of_b);
  return cast(sum(ndarray_detail::in_name_of("vecdot", [&] { return multiply(left, right); }), {-1}), dtype);
}

NDArray dot(const NDArray& a, const NDArray& b, Where at) {
  const CallSite site(at);
  check_arrays("dot", {&a, &b});
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b);
  if (a.ndim() == 1 && b.ndim() == 1 && a.size() == b.size()) {
    const auto [left, right, dtype] = converted("dot", a, b);
    return cast(matmul(left, right), dtype);
  }
  return summed_product("dot", a, b, {-1}, {b.ndim() == 1 ? -1 : -2});
}

NDArray inner(const NDArray& a, const NDArray& b, Where at) {
  const CallSite site(at);
  check_arrays("inner", {&a, &b});
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b);
  return summed_product("inner", a, b, {-1}, {-1});
}

NDArray outer(const NDArray& a, const NDArray& b, Where at) {
  const CallSite site(at);
  check_arrays("outer", {&a, &b});
  return multiply(reshape(a, {a.size(), 1}), reshape(b, {b.size()}));
}

NDArray kron(const NDArray& a, const NDArray& b, Where at) {
  const CallSite site(at);
  check_arrays("kron", {&a, &b});
  const int axes = std::max(a.ndim(), b.ndim());
  if (2 * axes > kMaxDims) {
    throw InvalidArgument("kron: arrays of shapes " + a.shape().to_string() + " and " +
                          b.shape().to_string() + "; wanted at most " + std::to_string(kMaxDims / 2) +
                          " axes");
  }
  const NDArray y = multiply(spaced(a, axes, true), spaced(b, axes, false));
  Shape shape;
  for (int i = 0; i < axes; ++i) shape.push_back(y.shape()[2 * i] * y.shape()[2 * i + 1]);
  return reshape(y, shape);
}

NDArray cross(const NDArray& a, const NDArray& b, int given, Where at) {
  const CallSite site(at);
  check_arrays("cross", {&a, &b});
  if (promote(a.dtype(), b.dtype()) == DType::boolean)
    throw InvalidArgument("cross: dtype bool; wanted a number's");
  const Shape shape = broadcast_for("cross", a.shape(), b.shape());
  const int axis = ndarray_detail::axis_of("cross", given, shape);
  for (const NDArray* x : {&a, &b}) {
    const int own = axis - (shape.size() - x->ndim());
    if (own < 0 || x->shape()[own] != 3) {
      throw InvalidArgument("cross: axis " + std::to_string(given) + " of shapes " + a.shape().to_string() +
                            " and " + b.shape().to_string() + "; wanted size 3 in both");
    }
  }
  if (const DType dtype = promote(a.dtype(), b.dtype()); is_half(dtype))
    return cast(cross(cast(a, DType::f32), cast(b, DType::f32), given), dtype);
  const NDArray x = broadcast_to(a, shape), y = broadcast_to(b, shape);
  std::vector<NDArray> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(one_of_three(x, axis, j) * one_of_three(y, axis, k) -
                    one_of_three(x, axis, k) * one_of_three(y, axis, j));
  }
  return concat(parts, axis);
}

NDArray tensordot(const NDArray& a, const NDArray& b, std::int64_t axes, Where at) {
  const CallSite site(at);
  check_arrays("tensordot", {&a, &b});
  if (axes < 0 || axes > a.ndim() || axes > b.ndim()) {
    throw InvalidArgument("tensordot: axes is " + std::to_string(axes) + " for shapes " +
                          a.shape().to_string() + " and " + b.shape().to_string());
  }
  Dims a_axes, b_axes;
  for (std::int64_t i = 0; i < axes; ++i) {
    a_axes.push_back(a.ndim() - axes + i);
    b_axes.push_back(i);
  }
  return summed_product("tensordot", a, b, a_axes, b_axes);
}

NDArray tensordot(const NDArray& a, const NDArray& b, Dims a_axes, Dims b_axes, Where at) {
  const CallSite site(at);
  return summed_product("tensordot", a, b, a_axes, b_axes);
}

HEDDLE_OPERATORS(products) {
  table.family("Products");
  const Argument axis = {"axis", -1}, a_no_bool = {"a", DTypes::no_bool}, b_no_bool = {"b", DTypes::no_bool};
  table.add("vecdot", vecdot,
            {"The sum of a * b along `axis`, of one size in both; the other axes broadcast.",
             {"a", "b", axis},
             "common",
             kDifferentiable});
  table.add(
      "dot", dot,
      {"The sum over the last axis of a and the last but one of b, or its only one; a scalar multiplies.",
       {"a", "b"},
       "common",
       kDifferentiable});
  table.add(
      "inner", inner,
      {"The sum over the last axes of a and b; a scalar multiplies.", {"a", "b"}, "common", kDifferentiable});
  table.add("outer", outer,
            {"The products of each element of a with each of b: shape (a.size, b.size).",
             {"a", "b"},
             "common",
             kDifferentiable});
  table.add("kron", kron, {"Kronecker's product.", {"a", "b"}, "common", kDifferentiable});
  table.add("cross", cross,
            {"The vector product along `axis`, of size 3 in both; the other axes broadcast.",
             {a_no_bool, b_no_bool, axis},
             "common",
             kDifferentiable});
  table.add("tensordot", tensordot_by_name,
            {"The sum over the last `axes` axes of a and the first ones of b, 2 for None; or over axis "
             "a_axes[i] of a "
             "together with b_axes[i] of b.",
             {"a", "b", {"axes", kNone}, {"a_axes", kNone}, {"b_axes", kNone}},
             "common",
             kDifferentiable});
}

}  // namespace heddle
