// Calls by name: matches values with arguments and checks them.
#include <algorithm>
#include <limits>

#include <heddle/into.h>
#include <heddle/operator_registry.h>

#include "core/operator_table.h"

namespace heddle {
namespace operators_detail {
namespace {

template <class... T> bool is_one_of(const OperatorValue& value) {
  return (std::holds_alternative<T>(value) || ...);
}

bool is_choice(const ArgumentInfo& argument, const OperatorValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text && std::find(argument.choices.begin(), argument.choices.end(), *text) != argument.choices.end();
}

bool fits(const ArgumentInfo& argument, const OperatorValue& value) {
  if (value.is_none()) return argument.takes_none();
  switch (argument.kind) {
    case ArgumentKind::array:
      return is_one_of<NDArray>(value);
    case ArgumentKind::array_or_number:
      return is_one_of<NDArray, bool, std::int64_t, double, std::uint64_t>(value);
    case ArgumentKind::array_or_row_sparse:
      return is_one_of<NDArray, RowSparse>(value);
    case ArgumentKind::arrays:
      return is_one_of<std::vector<NDArray>>(value);
    case ArgumentKind::row_sparse:
      return is_one_of<RowSparse>(value);
    case ArgumentKind::row_sparse_list:
      return is_one_of<std::vector<RowSparse>>(value);
    case ArgumentKind::number:
      return is_one_of<bool, std::int64_t, double, std::uint64_t>(value);
    case ArgumentKind::real:
      return is_one_of<std::int64_t, double, std::uint64_t>(value);
    case ArgumentKind::integer:
      return is_one_of<std::int64_t>(value);
    case ArgumentKind::boolean:
      return is_one_of<bool>(value);
    case ArgumentKind::text:
      return is_one_of<std::string>(value) && (argument.choices.empty() || is_choice(argument, value));
    case ArgumentKind::integers:
      return is_one_of<Dims, std::int64_t>(value) || is_choice(argument, value);
    case ArgumentKind::dtype:
      return is_one_of<DType, std::string>(value);
    case ArgumentKind::device:
      return is_one_of<Device>(value);
    case ArgumentKind::generator:
      return is_one_of<Generator*>(value) && std::get<Generator*>(value);
  }
  return false;
}

std::string wanted_by(const ArgumentInfo& argument) {
  std::string text = name_of(argument.kind);
  if (argument.kind == ArgumentKind::integers) text = "int or " + text;
  if (argument.kind == ArgumentKind::text && !argument.choices.empty()) text.clear();
  for (const std::string& word : argument.choices) text += (text.empty() ? "'" : " or '") + word + "'";
  return argument.takes_none() ? text + " or None" : text;
}

[[noreturn]] void refuse_value(const FunctionInfo& function, std::size_t i, const OperatorValue& value,
                               const std::string& wanted) {
  throw InvalidArgument(function.name + ": " + function.arguments[i].name + " is " + value.to_string() +
                        "; wanted: " + wanted);
}

bool is_below(const OperatorValue& value, std::int64_t least) {
  if (const auto* one = std::get_if<std::int64_t>(&value)) return *one < least;
  const auto* const list = std::get_if<Dims>(&value);
  return list && std::any_of(list->begin(), list->end(), [least](std::int64_t one) { return one < least; });
}

void check_values(const FunctionInfo& function, std::span<const OperatorValue* const> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ArgumentInfo& argument = function.arguments[i];
    if (!fits(argument, *values[i])) refuse_value(function, i, *values[i], wanted_by(argument));
    if (argument.least && is_below(*values[i], *argument.least))
      throw InvalidArgument(function.name + ": " + argument.name + " is " + values[i]->to_string() +
                            "; want " + std::to_string(*argument.least) + " or more");
  }
}

}  // namespace

CheckedCall::CheckedCall(const FunctionInfo& op, std::span<const OperatorValue* const> values, Where where,
                         std::vector<OperatorValue>& results)
    : op_(op), values_(values), where_(where), results_(results) {
  check_values(op, values);
}

void CheckedCall::refuse(std::size_t i, const std::string& wanted) const {
  refuse_value(op_, i, value(i), wanted);
}

bool CheckedCall::is_none(std::size_t i) const { return value(i).is_none(); }
bool CheckedCall::boolean(std::size_t i) const { return std::get<bool>(value(i)); }
std::int64_t CheckedCall::integer(std::size_t i) const { return std::get<std::int64_t>(value(i)); }
bool CheckedCall::is_text(std::size_t i) const { return std::holds_alternative<std::string>(value(i)); }
const std::string& CheckedCall::text(std::size_t i) const { return std::get<std::string>(value(i)); }
Device CheckedCall::device(std::size_t i) const { return std::get<Device>(value(i)); }
const std::vector<NDArray>& CheckedCall::arrays(std::size_t i) const {
  return std::get<std::vector<NDArray>>(value(i));
}
const RowSparse& CheckedCall::row_sparse(std::size_t i) const { return std::get<RowSparse>(value(i)); }
const std::vector<RowSparse>& CheckedCall::row_sparse_list(std::size_t i) const {
  return std::get<std::vector<RowSparse>>(value(i));
}

const NDArray& CheckedCall::array(std::size_t i) const {
  static const NDArray& undefined = *new NDArray;
  const auto* array = std::get_if<NDArray>(&value(i));
  return array ? *array : undefined;
}

Operand CheckedCall::operand(std::size_t i) const {
  if (const auto* array = std::get_if<NDArray>(&value(i))) return {*array, where_};
  return {number(i), where_};
}

Scalar CheckedCall::number(std::size_t i) const {
  if (const auto* flag = std::get_if<bool>(&value(i))) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value(i))) return *whole;
  if (const auto* huge = std::get_if<std::uint64_t>(&value(i))) return *huge;
  return std::get<double>(value(i));
}

double CheckedCall::real(std::size_t i) const { return number(i).real(); }

int CheckedCall::small_integer(std::size_t i) const {
  const std::int64_t wide = integer(i);
  const auto narrow = static_cast<int>(wide);
  if (narrow != wide) refuse(i, "an int of 32 bits");
  return narrow;
}

DType CheckedCall::dtype(std::size_t i) const {
  if (const auto* dtype = std::get_if<DType>(&value(i))) return *dtype;
  return ndarray_detail::in_name_of(op_.name.c_str(),
                                    [&] { return dtype_from_name(std::get<std::string>(value(i))); });
}

Generator& CheckedCall::generator(std::size_t i) const {
  return is_none(i) ? default_generator() : *std::get<Generator*>(value(i));
}

Dims CheckedCall::integers(std::size_t i) const {
  if (const auto* one = std::get_if<std::int64_t>(&value(i))) return {*one};
  return std::get<Dims>(value(i));
}

Dims CheckedCall::axes(std::size_t i) const {
  if (is_none(i)) return {};
  const Dims given = integers(i);
  if (given.empty() && op_.arguments[i].takes_none()) refuse(i, "an axis, or None for all");
  return given;
}

void CheckedCall::fill(std::size_t i, std::span<std::int64_t> sizes) const {
  const Dims given = integers(i);
  const auto count = static_cast<int>(sizes.size());
  if (given.size() != 1 && given.size() != count)
    refuse(i, count == 1 ? "an int"
                         : std::to_string(count) + " ints, or one for " + (count == 2 ? "both" : "all"));
  for (int k = 0; k < count; ++k) sizes[static_cast<std::size_t>(k)] = given[given.size() == 1 ? 0 : k];
}

void CheckedCall::give(NDArray result) const { results_.emplace_back(std::move(result)); }
void CheckedCall::give(RowSparse result) const { results_.emplace_back(std::move(result)); }
void CheckedCall::give(std::vector<NDArray> result) const { results_.emplace_back(std::move(result)); }

namespace {

// One pointer for each argument, to the given value or to the default.
using Values = std::vector<const OperatorValue*>;

[[noreturn]] void refuse(const FunctionInfo& op, const std::string& what) {
  throw InvalidArgument(op.name + ": " + what + "; wanted: " + op.signature());
}

void take_named(const FunctionInfo& op, const NamedValue& given, Values& values) {
  const auto at = std::find_if(op.arguments.begin(), op.arguments.end(),
                               [&](const ArgumentInfo& argument) { return argument.name == given.name; });
  if (at == op.arguments.end()) refuse(op, "there is no argument '" + given.name + "'");
  const OperatorValue*& value = values[static_cast<std::size_t>(at - op.arguments.begin())];
  if (value) refuse(op, given.name + " is given twice");
  value = &given.value;
}

Values matched(const FunctionInfo& op, std::span<const OperatorValue> first,
               std::span<const NamedValue> named) {
  const std::size_t count = op.arguments.size();
  if (first.size() > count) {
    refuse(op, std::to_string(first.size()) + " values for " + std::to_string(count) + " arguments");
  }
  Values values(count, nullptr);
  for (std::size_t i = 0; i < first.size(); ++i) values[i] = &first[i];
  for (const NamedValue& given : named) take_named(op, given, values);
  for (std::size_t i = 0; i < count; ++i) {
    const ArgumentInfo& argument = op.arguments[i];
    if (values[i]) continue;
    if (argument.required()) refuse(op, argument.name + " is missing");
    values[i] = &*argument.default_value;
  }
  return values;
}

// The in-place operator if the call computes op(x, b) into x itself: it is one op, as x += b, so that ops of
// other threads do not come between. Null if it is no such call.
const OperatorInfo* in_place_of(const OperatorInfo& op, std::span<const OperatorValue> values,
                                std::span<const NamedValue> named, const NDArray& out) {
  const auto* first = values.size() == 2 && named.empty() ? std::get_if<NDArray>(&values[0]) : nullptr;
  if (!first || !first->defined() || !out.defined() || !same_elements(*first, out)) return nullptr;
  return find_operator(op.name + "_");
}

}  // namespace
}  // namespace operators_detail

OperatorValues complete_arguments(const FunctionInfo& function, std::span<const OperatorValue> values,
                                  std::span<const NamedValue> named) {
  const operators_detail::Values all = operators_detail::matched(function, values, named);
  operators_detail::check_values(function, all);
  OperatorValues complete;
  for (const OperatorValue* value : all) complete.push_back(*value);
  return complete;
}

OperatorValues call_operator(const OperatorInfo& op, std::span<const OperatorValue> values,
                             std::span<const NamedValue> named, Where where) {
  const CallSite site(where);
  const operators_detail::Values all = operators_detail::matched(op, values, named);
  OperatorValues results;
  const operators_detail::CheckedCall call(op, all, where, results);
  // The function may have another name than the operator: std is stddev.
  ndarray_detail::in_name_of(op.name.c_str(), [&] { op.code->call(op.code->function, call); });
  return results;
}

bool takes_out(const OperatorInfo& op) {
  return op.results.size() == 1 && op.results[0] == ArgumentKind::array;
}

void call_operator_into(const OperatorInfo& op, std::span<const OperatorValue> values,
                        std::span<const NamedValue> named, const NDArray& out, Where where) {
  const CallSite site(where);
  if (!takes_out(op)) operators_detail::refuse(op, "its result is not one array, which `out` could hold");
  if (const OperatorInfo* in_place = operators_detail::in_place_of(op, values, named, out))
    return void(call_operator(*in_place, values, {}, where));
  operators_detail::OutputCall call(op.name.c_str(), out);
  const auto take = [&](const OperatorValue& value) {
    if (const auto* array = std::get_if<NDArray>(&value)) {
      call.takes(*array);
    } else if (const auto* arrays = std::get_if<std::vector<NDArray>>(&value)) {
      call.takes(*arrays);
    } else if (std::holds_alternative<RowSparse>(value)) {
      call.may_read_anything();
    }
  };
  for (const OperatorValue& value : values) take(value);
  for (const NamedValue& value : named) take(value.value);
  call.lend();
  call.complete(std::get<NDArray>(call_operator(op, values, named, where).at(0)));
}

OperatorValues call_operator(std::string_view name, const OperatorValues& values,
                             const std::vector<NamedValue>& named, Where where) {
  const CallSite site(where);
  const OperatorInfo* op = find_operator(name);
  if (!op) {
    throw InvalidArgument("call_operator: there is no operator '" + std::string(name) +
                          "'; operators() and `heddle operators` list them");
  }
  return call_operator(*op, std::span(values), std::span(named), where);
}

}  // namespace heddle
