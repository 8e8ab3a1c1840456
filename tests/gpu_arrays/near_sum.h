// Comparison of results that sums of many terms are made of. The CPU and the GPU add in different orders.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compare.h"

namespace heddle::test {

// Whether shapes, dtypes and values are equal but for `most` times the largest finite value of the result, at least 1, and NaN is NaN.
inline bool near_sum(const NDArray& here, const NDArray& there, double most) {
  if (here.shape() != there.shape() || here.dtype() != there.dtype() || there.device() != gpu(0))
    return false;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  double largest = 1;
  for (const double x : a)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::fabs(a[i] - b[i]) <= most * largest)) return false;
  }
  return true;
}

// An epsilon of the dtype times what roundings of a few operations and functions of libm make of it.
inline double rounding_of(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 2e-3 : 2e-2;
}

// Numbers of -4 to 4 with few digits, whose sums have no rounding errors where only they are added.
inline NDArray small_numbers(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) value = static_cast<double>(static_cast<std::int64_t>(random() % 65)) / 8 - 4;
  return array(values, shape).astype(dtype);
}

// One array in the same layout on both devices: dense, transposed, reversed, with steps, or broadcast.
inline Pair small_pair(Random& random, const Shape& shape, DType dtype) {
  const std::uint64_t kind = random() % 5;
  const int last = shape.size() - 1;
  Shape own = shape;
  Dims axes;
  if (kind == 1) {
    for (int axis = last; axis >= 0; --axis) axes.push_back(axis);
    for (int axis = 0; axis <= last; ++axis) own[axis] = shape[last - axis];
  }
  if (kind == 3 && last >= 0) own[last] = own[last] * 2 + 1;
  if (kind == 4 && last >= 0) own[static_cast<int>(random() % shape.size())] = 1;
  const auto view = [&](const NDArray& x) {
    if (kind == 1) return x.permuted(axes);
    if (kind == 2 && last >= 0) return x.slice(0, {.step = -1});
    if (kind == 3 && last >= 0) return x.slice(last, {.begin = 1, .end = 1 + 2 * shape[last], .step = 2});
    if (kind == 4 && last >= 0) return x.broadcast_view(shape);
    return x;
  };
  const NDArray x = small_numbers(random, own, dtype);
  return {view(x), view(x.copy_to(gpu(0)))};
}

// The result of a function and the gradients of its arguments, which are copied to the device.
template <class F>
std::vector<NDArray> with_gradients(const F& call, const std::vector<NDArray>& given, Device device) {
  std::vector<NDArray> arguments;
  for (const NDArray& one : given) {
    arguments.push_back(one.copy_to(device));
    if (is_floating(one.dtype())) arguments.back().set_requires_grad();
  }
  const NDArray y = call(arguments);
  Random random(7);
  y.backward(small_numbers(random, y.shape(), y.dtype()).copy_to(device));
  std::vector<NDArray> results{y.detach()};
  for (const NDArray& one : arguments)
    if (is_floating(one.dtype())) results.push_back(one.grad());
  return results;
}

// Whether both devices have the same, but for roundings.
template <class F> bool same_gradients(const F& call, const std::vector<NDArray>& given, double factor = 1) {
  const auto here = with_gradients(call, given, cpu()), there = with_gradients(call, given, gpu(0));
  for (std::size_t i = 0; i < here.size(); ++i)
    if (!near_sum(here[i], there[i], factor * rounding_of(here[i].dtype()))) return false;
  return true;
}

}  // namespace heddle::test
