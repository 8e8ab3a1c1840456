// Functions that are called by name with arguments checked at run time: operators (operator_registry.h) and layers (layer_registry.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/argument_kind.h>
#include <heddle/operator_value.h>

namespace heddle {

struct ArgumentInfo {
  std::string name;  // the keyword
  ArgumentKind kind = ArgumentKind::array;
  // Empty: the argument must be given. A default of None stands for what `documentation` says.
  std::optional<OperatorValue> default_value{};
  std::vector<DType> dtypes{};  // dtypes that an array may have; empty if the argument takes no array
  // The texts that are allowed, or that may stand for a list of integers; empty if any text is, and for other kinds.
  std::vector<std::string> choices{};
  int length = 0;  // length of a list of integers, for all of which one integer may stand; 0: any
  std::optional<std::int64_t> least{};  // the smallest value of an integer, or of each in a list
  bool inferred = false;                // a layer's size, which may be None: its first call finds it
  bool differentiable = false;          // whether a floating array gets a gradient

  bool required() const { return !default_value; }
  bool takes_none() const { return inferred || (default_value && default_value->is_none()); }
};

struct FunctionInfo {
  std::string name;
  std::string family;         // the heading of the function in documentation
  std::string documentation;  // plain text on one line
  std::vector<ArgumentInfo> arguments{};

  std::string signature() const;  // "softmax(x, axis=-1)"
};

// One value for each argument: `values` are those of the first arguments, in their order, `named` are others; the rest have their
// defaults. Throws InvalidArgument for too many values, for an argument that is missing, unknown or given twice, or is of another kind.
OperatorValues complete_arguments(const FunctionInfo& function, std::span<const OperatorValue> values,
                                  std::span<const NamedValue> named = {});

}  // namespace heddle
