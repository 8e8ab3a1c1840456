#include "registry/operator_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include <heddle/operator_registry.h>

#include "registry/linalg_entries.h"

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
  register_creation(table);
  register_more_creation(table);
  register_random(table);
  register_distributions(table);
  register_elementwise(table);
  register_elementwise_math(table);
  register_selection(table);
  register_reductions(table);
  register_statistics(table);
  register_scan(table);
  register_shape_ops(table);
  register_split(table);
  register_rearrange(table);
  register_diagonal(table);
  register_pad(table);
  register_indexing(table);
  register_gather_scatter(table);
  register_masked(table);
  register_sorting(table);
  register_searching(table);
  register_matmul(table);
  register_products(table);
  register_einsum(table);
  register_linalg_solve(table);
  register_linalg_factors(table);
  register_matrix_functions(table);
  register_linear(table);
  register_conv(table);
  register_pooling(table);
  register_softmax(table);
  register_dropout(table);
  register_embedding(table);
  register_row_sparse(table);
  register_in_place(table);
  register_layer_init(table);
  for (const OperatorInfo& op : operators) by_name.emplace(op.name, &op);
}

const Registry& registry() {
  static const Registry all;
  return all;
}

}  // namespace

void OperatorTable::insert(const char* name, const Entry& entry, std::span<const ParameterType> types,
                           Gives result, OperatorCode code) {
  const auto of_this_name = [&](const OperatorInfo& op) { return op.name == name; };
  if (std::any_of(operators_.begin(), operators_.end(), of_this_name)) {
    throw Error(std::string(name) + ": two operators have this name");
  }
  if (entry.arguments.size() != types.size()) {
    throw Error(std::string(name) + ": registered with " + std::to_string(entry.arguments.size()) +
                " arguments; its function takes " + std::to_string(types.size()));
  }
  OperatorInfo info{.name = name, .family = family_, .documentation = entry.documentation};
  for (const Argument& argument : entry.arguments) {
    info.arguments.push_back(described(argument, types[info.arguments.size()], entry.differentiable));
  }
  if (result == Gives::array) info.results = {ArgumentKind::array};
  if (result == Gives::row_sparse) info.results = {ArgumentKind::row_sparse};
  if (result == Gives::arrays) info.results = {ArgumentKind::arrays};
  info.result_dtype = entry.result;
  info.differentiable = entry.differentiable;
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
