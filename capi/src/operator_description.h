// What the registry says of an operator, as structs of C whose texts and lists live as long as the process.
#pragma once

#include <string>
#include <vector>

#include <heddle/c/operator.h>
#include <heddle/operator_registry.h>

namespace heddle::c {

class OperatorDescription {
 public:
  explicit OperatorDescription(const OperatorInfo& op);
  heddle_operator_info info() const;
  std::size_t argument_count() const { return arguments_.size(); }
  heddle_argument_info argument(std::size_t index) const { return arguments_[index].info; }

 private:
  struct Argument {
    std::string default_text;
    std::vector<std::int32_t> dtypes;
    std::vector<const char*> choices;
    heddle_argument_info info{};
  };
  static void describe(const ArgumentInfo& argument, Argument& described);
  const OperatorInfo& op_;
  std::string signature_;
  std::vector<std::int32_t> results_;
  std::vector<Argument> arguments_;  // never moved: the structs point into it
};

const OperatorDescription& description_of(std::size_t index);

const heddle_operator* handle_of(const OperatorInfo& op);
// Of any pointer: throws BadHandle for one that is no operator.
std::size_t index_of(const heddle_operator* op, const char* call);

}  // namespace heddle::c
