#include "core/operator_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include <heddle/operator_registry.h>

namespace heddle {
namespace operators_detail {
namespace {

bool accepts(DTypes dtypes, DType dtype) {
  switch (dtypes) {
    case DTypes::all:
      return true;
    case DTypes::floating:
      return is_floating(dtype);
    case DTypes::no_bool:
      return dtype != DType::boolean;
    case DTypes::boolean:
      return dtype == DType::boolean;
    case DTypes::integers:
      return !is_floating(dtype) && dtype != DType::boolean;
    case DTypes::bits:
      return !is_floating(dtype);
    case DTypes::f32:
      return dtype == DType::f32;
    case DTypes::i8:
      return dtype == DType::i8;
    case DTypes::i32:
      return dtype == DType::i32;
  }
  return false;
}

bool takes_arrays(ArgumentKind kind) { return kind <= ArgumentKind::row_sparse_list; }

OperatorValue value_of(const Default& value) {
  switch (value.kind) {
    case Default::Kind::boolean:
      return value.boolean;
    case Default::Kind::integer:
      return value.integer;
    case Default::Kind::real:
      return value.real;
    case Default::Kind::text:
      return value.text;
    case Default::Kind::pair:
      return Dims(value.pair);
    case Default::Kind::dtype:
      return value.dtype;
    case Default::Kind::device:
      return value.device;
    case Default::Kind::required:
    case Default::Kind::none:
      break;
  }
  return {};
}

ArgumentInfo described(const Argument& argument, ParameterType type, bool differentiable) {
  ArgumentInfo info{.name = argument.name, .kind = type.kind, .length = type.length};
  if (argument.value.kind != Default::Kind::required) info.default_value = value_of(argument.value);
  info.choices.assign(argument.choices.begin(), argument.choices.end());
  if (!takes_arrays(type.kind)) return info;
  for (DType dtype : kAllDTypes) {
    if (accepts(argument.dtypes, dtype)) info.dtypes.push_back(dtype);
  }
  info.differentiable = differentiable && std::any_of(info.dtypes.begin(), info.dtypes.end(), is_floating);
  return info;
}

struct Registry {
  Registry();
  std::vector<OperatorInfo> operators;
  std::map<std::string, const OperatorInfo*, std::less<>> by_name;
};

Registry::Registry() {
  OperatorTable table(operators);
  register_operators(table);
  std::stable_sort(operators.begin(), operators.end(),
                   [](const OperatorInfo& a, const OperatorInfo& b) { return a.family < b.family; });
  for (const OperatorInfo& op : operators) by_name.emplace(op.name, &op);
}

const Registry& registry() {
  static const Registry& all = *new Registry;
  return all;
}

}  // namespace

void OperatorTable::insert(const char* name, const Entry& entry, std::span<const ParameterType> types,
                           Gives result, OperatorCode code) {
  const auto of_this_name = [&](const OperatorInfo& op) { return op.name == name; };
  if (std::any_of(operators_.begin(), operators_.end(), of_this_name)) {
    throw Error(std::string(name) + ": two operators have this name");
  }
  if (!*family_) throw Error(std::string(name) + ": its file does not begin with table.family()");
  if (entry.arguments.size() != types.size()) {
    throw Error(std::string(name) + ": registered with " + std::to_string(entry.arguments.size()) +
                " arguments; its function takes " + std::to_string(types.size()));
  }
  OperatorInfo info;
  info.name = name;
  info.family = family_;
  info.documentation = entry.documentation;
  for (const Argument& argument : entry.arguments) {
    info.arguments.push_back(described(argument, types[info.arguments.size()], entry.differentiable));
  }
  if (result == Gives::array) info.results = {ArgumentKind::array};
  if (result == Gives::row_sparse) info.results = {ArgumentKind::row_sparse};
  if (result == Gives::arrays) info.results = {ArgumentKind::arrays};
  info.result_dtype = entry.result;
  info.differentiable = entry.differentiable;
  info.numpy = entry.numpy;
  info.domain = {entry.domain.low, entry.domain.high};
  info.in_place = result == Gives::nothing;
  info.code = std::make_shared<OperatorCode>(code);
  operators_.push_back(std::move(info));
}

}  // namespace operators_detail

std::span<const OperatorInfo> operators() { return operators_detail::registry().operators; }

const OperatorInfo* find_operator(std::string_view name) {
  const auto& by_name = operators_detail::registry().by_name;
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace heddle
