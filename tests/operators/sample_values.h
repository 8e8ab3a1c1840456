// What the samples of operators are made of, and those that stand in files of their own.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "operator_samples.h"

namespace heddle::testing {

using In = const OperatorValues&;

inline const NDArray& at(In values, std::size_t i) { return std::get<NDArray>(values.at(i)); }
inline const std::vector<NDArray>& list_at(In values, std::size_t i) {
  return std::get<std::vector<NDArray>>(values.at(i));
}

// 1, 2, 3, 1, 2, 3, 1 ... of this shape.
inline NDArray small(const Shape& shape, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 3 + 1);
  return array(values, shape).astype(dtype);
}

inline NDArray numbers(std::initializer_list<std::int64_t> values) { return array<std::int64_t>(values); }

template <std::size_t n> std::vector<NDArray> listed(const std::array<NDArray, n>& arrays) {
  return {arrays.begin(), arrays.end()};
}

void add_rearrange(std::vector<Sample>& to);
void add_scatter(std::vector<Sample>& to);
void add_sorting(std::vector<Sample>& to);

}  // namespace heddle::testing
