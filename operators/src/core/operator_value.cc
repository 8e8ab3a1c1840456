#include <charconv>
#include <cmath>

#include <heddle/operator_registry.h>

namespace heddle {
namespace {

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
  const std::string text(digits, end.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// A short text for errors: "array f32(2, 3)".
template <class Array> std::string text_of(const char* kind, const Array& array) {
  if (!array.defined()) return std::string("undefined ") + kind;
  return std::string(kind) + " " + name_of(array.dtype()) + array.shape().to_string();
}

struct ToText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return text_of(value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(const Dims& value) const { return value.to_string(); }
  std::string operator()(DType value) const { return name_of(value); }
  std::string operator()(Device value) const { return value.to_string(); }
  std::string operator()(const NDArray& value) const { return text_of("array", value); }
  std::string operator()(const RowSparse& value) const { return text_of("row-sparse array", value); }
  std::string operator()(const std::vector<NDArray>& list) const {
    return "list of " + std::to_string(list.size()) + " arrays";
  }
  std::string operator()(const std::vector<RowSparse>& list) const {
    return "list of " + std::to_string(list.size()) + " row-sparse arrays";
  }
  std::string operator()(const Generator*) const { return "generator"; }
};

}  // namespace

std::string OperatorValue::to_string() const { return std::visit(ToText(), *this); }

const char* name_of(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::array:
      return "array";
    case ArgumentKind::array_or_number:
      return "array or number";
    case ArgumentKind::array_or_row_sparse:
      return "array or row-sparse array";
    case ArgumentKind::arrays:
      return "list of arrays";
    case ArgumentKind::row_sparse:
      return "row-sparse array";
    case ArgumentKind::row_sparse_list:
      return "list of row-sparse arrays";
    case ArgumentKind::number:
      return "number";
    case ArgumentKind::real:
      return "float";
    case ArgumentKind::integer:
      return "int";
    case ArgumentKind::boolean:
      return "bool";
    case ArgumentKind::text:
      return "string";
    case ArgumentKind::integers:
      return "list of ints";
    case ArgumentKind::dtype:
      return "dtype";
    case ArgumentKind::device:
      return "device";
    case ArgumentKind::generator:
      return "generator";
  }
  return "";
}

std::string FunctionInfo::signature() const {
  std::string text = name + "(";
  for (const ArgumentInfo& argument : arguments) {
    if (&argument != &arguments.front()) text += ", ";
    text += argument.name;
    if (argument.default_value) text += "=" + argument.default_value->to_string();
  }
  return text + ")";
}

}  // namespace heddle
