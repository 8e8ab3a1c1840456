// Maps the parameter types of C++ functions to kinds of arguments of a call by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/argument_kind.h>

#include "core/checked_call.h"

namespace heddle::operators_detail {

// The kind of argument that a parameter takes.
struct ParameterType {
  ArgumentKind kind;
  int length = 0;  // length of a list of integers; 0: any
};

template <auto member, ArgumentKind kind, int length = 0> struct ParameterOf {
  static constexpr ParameterType type{kind, length};
  static decltype(auto) of(const CheckedCall& call, std::size_t i) { return (call.*member)(i); }
};

// For a parameter of type T: its ParameterType, and its value from a call.
template <class T> struct Parameter;

// clang-format off
template <> struct Parameter<NDArray> : ParameterOf<&CheckedCall::array, ArgumentKind::array> {};
template <> struct Parameter<Operand> : ParameterOf<&CheckedCall::operand, ArgumentKind::array_or_number> {};
template <> struct Parameter<OperatorValue> : ParameterOf<&CheckedCall::value, ArgumentKind::array_or_row_sparse> {};
template <> struct Parameter<std::vector<NDArray>> : ParameterOf<&CheckedCall::arrays, ArgumentKind::arrays> {};
template <> struct Parameter<RowSparse> : ParameterOf<&CheckedCall::row_sparse, ArgumentKind::row_sparse> {};
template <> struct Parameter<std::vector<RowSparse>> : ParameterOf<&CheckedCall::row_sparse_list, ArgumentKind::row_sparse_list> {};
template <> struct Parameter<Scalar> : ParameterOf<&CheckedCall::number, ArgumentKind::number> {};
template <> struct Parameter<double> : ParameterOf<&CheckedCall::real, ArgumentKind::real> {};
template <> struct Parameter<int> : ParameterOf<&CheckedCall::small_integer, ArgumentKind::integer> {};
template <> struct Parameter<std::int64_t> : ParameterOf<&CheckedCall::integer, ArgumentKind::integer> {};
template <> struct Parameter<bool> : ParameterOf<&CheckedCall::boolean, ArgumentKind::boolean> {};
template <> struct Parameter<std::string> : ParameterOf<&CheckedCall::text, ArgumentKind::text> {};
template <> struct Parameter<Dims> : ParameterOf<&CheckedCall::axes, ArgumentKind::integers> {};
template <std::size_t n> struct Parameter<Sizes<n>> : ParameterOf<&CheckedCall::sizes<n>, ArgumentKind::integers, int{n}> {};
template <> struct Parameter<DType> : ParameterOf<&CheckedCall::dtype, ArgumentKind::dtype> {};
template <> struct Parameter<Device> : ParameterOf<&CheckedCall::device, ArgumentKind::device> {};
template <> struct Parameter<Generator> : ParameterOf<&CheckedCall::generator, ArgumentKind::generator> {};
// clang-format on

// An optional parameter: None gives std::nullopt.
template <class T> struct Parameter<std::optional<T>> {
  static constexpr ParameterType type = Parameter<T>::type;
  static std::optional<T> of(const CheckedCall& call, std::size_t i) {
    if (call.is_none(i)) return std::nullopt;
    return Parameter<T>::of(call, i);
  }
};
template <> struct Parameter<std::optional<Dims>> {
  static constexpr ParameterType type{ArgumentKind::integers};
  static std::optional<Dims> of(const CheckedCall& call, std::size_t i) {
    if (call.is_none(i)) return std::nullopt;
    return call.integers(i);
  }
};

// The call site is no argument; every function has it as last parameter.
template <> struct Parameter<Where> {
  static constexpr ParameterType type{ArgumentKind::array};
  static Where of(const CheckedCall& call, std::size_t) { return call.where(); }
};

}  // namespace heddle::operators_detail
