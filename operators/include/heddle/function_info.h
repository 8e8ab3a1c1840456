// Functions that are called by name with arguments checked at run time: operators (operator_registry.h) and layers (layer_registry.h).
#pragma once

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
  // Nothing: the argument must be given. None stands for what `documentation` says.
  std::optional<OperatorValue> default_value{};
  std::vector<DType> dtypes{};         // that arrays may have; empty if it takes no array
  std::vector<std::string> choices{};  // of a text that is not free; empty for all other kinds
  int length = 0;  // of a list of integers, for all of which one integer may stand; 0: any length
  bool differentiable = false;  // a floating array here gets a gradient

  bool required() const { return !default_value; }
  bool takes_none() const { return default_value && default_value->is_none(); }
};

struct FunctionInfo {
  std::string name;
  std::string family;         // the heading that it stands under in documentation
  std::string documentation;  // plain text on one line
  std::vector<ArgumentInfo> arguments{};

  std::string signature() const;  // "softmax(x, axis=-1)"
};

// One value for each argument: `values` are those of the first arguments, in their order, `named` are others; the rest have their
// defaults. Throws InvalidArgument for too many values, for an argument that is missing, unknown or given twice, or is of another kind.
OperatorValues complete_arguments(const FunctionInfo& function, std::span<const OperatorValue> values,
                                  std::span<const NamedValue> named = {});

}  // namespace heddle
