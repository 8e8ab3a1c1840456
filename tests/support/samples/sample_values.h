// Values for samples of operators, and how a file adds samples.
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

// The numbers 1, 2, 3, 1, 2, 3, 1 ... in this shape.
inline NDArray small(const Shape& shape, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 3 + 1);
  return array(values, shape).astype(dtype);
}

inline NDArray numbers(std::initializer_list<std::int64_t> values) { return array<std::int64_t>(values); }

// The generator for samples that take one; restart_generators() resets it.
Generator& a_generator();

template <std::size_t n> std::vector<NDArray> listed(const std::array<NDArray, n>& arrays) {
  return {arrays.begin(), arrays.end()};
}

// Begins the definition of the function by which a file adds its samples to the list `to`, in namespace
// heddle::testing. The build finds these functions by the word HEDDLE_SAMPLES.
#define HEDDLE_SAMPLES(name)                          \
  void add_##name##_samples(std::vector<Sample>& to); \
  void add_##name##_samples(std::vector<Sample>& to)
// Calls all functions that HEDDLE_SAMPLES defines.
void add_all_samples(std::vector<Sample>& to);

}  // namespace heddle::testing
