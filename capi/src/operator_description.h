// The registry's description of an operator as C structs. Their texts and lists live as long as the process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <heddle/c/operator.h>
#include <heddle/operator_registry.h>

#include "array_handle.h"

namespace heddle::c {

// The arguments and signature of an operator or a layer, as C structs.
class FunctionDescription {
 public:
  explicit FunctionDescription(const FunctionInfo& function);
  std::size_t argument_count() const { return arguments_.size(); }
  // The description of the argument at this index. Throws InvalidArgument if there is no such argument.
  heddle_argument_info argument(std::size_t index, const char* call) const;
  const char* signature() const { return signature_.c_str(); }

 private:
  struct Argument {
    std::string default_text;
    std::vector<std::int32_t> dtypes;
    std::vector<const char*> choices;
    heddle_argument_info info{};
  };
  static void describe(const ArgumentInfo& argument, Argument& described);
  std::string signature_;
  std::vector<Argument> arguments_;  // its elements never move: C structs point to them
};

class OperatorDescription : public FunctionDescription {
 public:
  explicit OperatorDescription(const OperatorInfo& op);
  heddle_operator_info info() const;

 private:
  const OperatorInfo& op_;
  std::vector<std::int32_t> results_;
};

// The index in `all` of the element to which `handle` points. Throws BadHandle for a pointer to anything
// else.
template <class T>
std::size_t index_in(std::span<const T> all, const void* handle, const char* type, const char* call) {
  if (!handle) throw_null(call, type);
  const auto begin = reinterpret_cast<std::uintptr_t>(all.data());
  // The distance is a huge unsigned number if the pointer lies before `all`.
  const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(handle) - begin;
  if (distance % sizeof(T) != 0 || distance / sizeof(T) >= all.size())
    throw BadHandle(std::string(call) + ": this " + type + " was never made");
  return distance / sizeof(T);
}

const OperatorDescription& description_of(std::size_t index);

const heddle_operator* handle_of(const OperatorInfo& op);
// The operator's index. Throws BadHandle for a pointer that is no operator.
std::size_t index_of(const heddle_operator* op, const char* call);

}  // namespace heddle::c
