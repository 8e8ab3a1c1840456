#include "operator_description.h"

#include <deque>

#include "value.h"

namespace heddle::c {

static_assert(static_cast<std::int32_t>(ArgumentKind::array_or_row_sparse) ==
              HEDDLE_ARGUMENT_ARRAY_OR_ROW_SPARSE);
static_assert(static_cast<std::int32_t>(ArgumentKind::row_sparse_list) == HEDDLE_ARGUMENT_ROW_SPARSE_LIST);
static_assert(static_cast<std::int32_t>(ArgumentKind::integers) == HEDDLE_ARGUMENT_INTEGERS);
static_assert(static_cast<std::int32_t>(ArgumentKind::generator) == HEDDLE_ARGUMENT_GENERATOR);
static_assert(static_cast<std::int32_t>(DType::i8) == HEDDLE_I8 &&
              static_cast<std::int32_t>(DType::u64) == HEDDLE_U64 &&
              static_cast<std::int32_t>(DType::boolean) == HEDDLE_BOOL);

FunctionDescription::FunctionDescription(const FunctionInfo& function)
    : signature_(function.signature()), arguments_(function.arguments.size()) {
  for (std::size_t i = 0; i < arguments_.size(); ++i) describe(function.arguments[i], arguments_[i]);
}

heddle_argument_info FunctionDescription::argument(std::size_t index, const char* call) const {
  if (index < arguments_.size()) return arguments_[index].info;
  throw InvalidArgument(std::string(call) + ": index " + std::to_string(index) + " of " +
                        std::to_string(arguments_.size()) + " arguments");
}

OperatorDescription::OperatorDescription(const OperatorInfo& op) : FunctionDescription(op), op_(op) {
  for (const ArgumentKind result : op.results)
    results_.push_back(result == ArgumentKind::row_sparse ? HEDDLE_VALUE_ROW_SPARSE
                       : result == ArgumentKind::arrays   ? HEDDLE_VALUE_ARRAYS
                                                          : HEDDLE_VALUE_ARRAY);
}

void FunctionDescription::describe(const ArgumentInfo& argument, Argument& described) {
  if (argument.default_value) described.default_text = argument.default_value->to_string();
  for (const DType dtype : argument.dtypes) described.dtypes.push_back(static_cast<std::int32_t>(dtype));
  for (const std::string& choice : argument.choices) described.choices.push_back(choice.c_str());
  heddle_argument_info& info = described.info;
  info.struct_size = sizeof info;
  info.name = argument.name.c_str();
  info.kind = static_cast<std::int32_t>(argument.kind);
  info.required = argument.required() ? 1 : 0;
  info.takes_none = argument.takes_none() ? 1 : 0;
  info.differentiable = argument.differentiable ? 1 : 0;
  info.length = argument.length;
  info.default_text = described.default_text.c_str();
  if (argument.default_value) info.default_value = plain_value(*argument.default_value);
  info.dtypes = described.dtypes.data();
  info.dtype_count = described.dtypes.size();
  info.choices = described.choices.data();
  info.choice_count = described.choices.size();
}

heddle_operator_info OperatorDescription::info() const {
  return {.struct_size = sizeof(heddle_operator_info),
          .name = op_.name.c_str(),
          .family = op_.family.c_str(),
          .documentation = op_.documentation.c_str(),
          .signature = signature(),
          .result_dtype = op_.result_dtype.c_str(),
          .argument_count = argument_count(),
          .results = results_.data(),
          .result_count = results_.size(),
          .differentiable = op_.differentiable ? 1 : 0,
          .in_place = op_.in_place ? 1 : 0};
}

const OperatorDescription& description_of(std::size_t index) {
  static const std::deque<OperatorDescription>& immortal = *[] {
    auto* all = new std::deque<OperatorDescription>;
    for (const OperatorInfo& op : operators()) all->emplace_back(op);
    return all;
  }();
  return immortal[index];
}

const heddle_operator* handle_of(const OperatorInfo& op) {
  return reinterpret_cast<const heddle_operator*>(&op);
}

std::size_t index_of(const heddle_operator* op, const char* call) {
  return index_in(operators(), op, "heddle_operator", call);
}

}  // namespace heddle::c
