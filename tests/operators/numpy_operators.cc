// The operators that the cases of numpy_cases_*.py name.
#include <heddle/ops.h>

#include "numpy_driver.h"

namespace heddle::testing {

namespace {

using Unary = NDArray (*)(const NDArray&, Where);
using Binary = NDArray (*)(const Operand&, const Operand&, Where);
using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);

Operator unary(Unary f) {
  return [f](const Inputs& in, const Attributes&) { return f(in[0], Where::current()); };
}

// The other operand is the second input, or the number in real= or integer=.
Operator binary(Binary f) {
  return [f](const Inputs& in, const Attributes& a) {
    if (a.has("real")) return f(in[0], a.real("real"), Where::current());
    if (a.has("integer")) return f(in[0], a.integer("integer"), Where::current());
    return f(in[0], in[1], Where::current());
  };
}

Operator reduction(Reduction f) {
  return [f](const Inputs& in, const Attributes& a) {
    return f(in[0], a.dims("axes"), a.flag("keepdims"), Where::current());
  };
}

int axis_of(const Attributes& a) { return static_cast<int>(a.integer("axis")); }
std::optional<int> optional_axis(const Attributes& a) {
  return a.has("axis") ? std::optional(axis_of(a)) : std::nullopt;
}

NDArray sliced(const Inputs& in, const Attributes& a) {
  Slice range;
  if (a.has("begin")) range.begin = a.integer("begin");
  if (a.has("end")) range.end = a.integer("end");
  range.step = a.integer("step");
  return slice(in[0], axis_of(a), range);
}

NDArray clipped(const Inputs& in, const Attributes& a) {
  if (a.has("low_real")) return clip(in[0], a.real("low_real"), a.real("high_real"));
  return clip(in[0], a.integer("low"), a.integer("high"));
}

NDArray updated(const Inputs& in, const Attributes& a) {
  NDArray x = in[0].copy();
  const std::string& how = a.text("how");
  if (how == "add")
    x += in[1];
  else if (how == "subtract")
    x -= in[1];
  else if (how == "multiply")
    x *= in[1];
  else
    x /= in[1];
  return x;
}

// in: rows and values, of one or several arrays, whose sum it is.
NDArray summed_rows(const Inputs& in, const Attributes& a) {
  std::vector<RowSparse> arrays;
  for (std::size_t i = 0; i + 1 < in.size(); i += 2)
    arrays.push_back(row_sparse(in[i], in[i + 1], a.dims("shape")));
  return to_dense(sum(arrays));
}

}  // namespace

const std::map<std::string, Operator>& operator_table() {
  static const std::map<std::string, Operator> table{
      {"abs", unary(abs)},
      {"add", binary(add)},
      {"argmax", [](const Inputs& in, const Attributes& a) { return argmax(in[0], optional_axis(a)); }},
      {"argmin", [](const Inputs& in, const Attributes& a) { return argmin(in[0], optional_axis(a)); }},
      {"broadcast_to",
       [](const Inputs& in, const Attributes& a) { return broadcast_to(in[0], a.dims("shape")); }},
      {"cast",
       [](const Inputs& in, const Attributes& a) { return cast(in[0], dtype_from_name(a.text("dtype"))); }},
      {"clip", clipped},
      {"concat", [](const Inputs& in, const Attributes& a) { return concat(in, axis_of(a)); }},
      {"divide", binary(divide)},
      {"embedding", [](const Inputs& in, const Attributes&) { return embedding(in[0], in[1]); }},
      {"equal", binary(equal)},
      {"exp", unary(exp)},
      {"expand_dims", [](const Inputs& in, const Attributes& a) { return expand_dims(in[0], axis_of(a)); }},
      {"flatten", [](const Inputs& in, const Attributes& a) { return flatten(in[0], axis_of(a)); }},
      {"greater", binary(greater)},
      {"greater_equal", binary(greater_equal)},
      {"less", binary(less)},
      {"less_equal", binary(less_equal)},
      {"log", unary(log)},
      {"logical_not", unary(logical_not)},
      {"max", reduction(max)},
      {"maximum", binary(maximum)},
      {"mean", reduction(mean)},
      {"min", reduction(min)},
      {"minimum", binary(minimum)},
      {"multiply", binary(multiply)},
      {"negative", unary(negative)},
      {"not_equal", binary(not_equal)},
      {"one_hot", [](const Inputs& in, const Attributes& a) { return one_hot(in[0], a.integer("n")); }},
      {"power", binary(power)},
      {"relu", unary(relu)},
      {"reshape", [](const Inputs& in, const Attributes& a) { return reshape(in[0], a.dims("shape")); }},
      {"retain", [](const Inputs& in, const Attributes&) { return to_dense(retain(in[0], in[1])); }},
      {"row_sparse", summed_rows},
      {"sigmoid", unary(sigmoid)},
      {"slice", sliced},
      {"sqrt", unary(sqrt)},
      {"square", unary(square)},
      {"squeeze", [](const Inputs& in, const Attributes& a) { return squeeze(in[0], a.dims("axes")); }},
      {"stack", [](const Inputs& in, const Attributes& a) { return stack(in, axis_of(a)); }},
      {"subtract", binary(subtract)},
      {"sum", reduction(sum)},
      {"take", [](const Inputs& in, const Attributes& a) { return take(in[0], in[1], axis_of(a)); }},
      {"tanh", unary(tanh)},
      {"transpose", [](const Inputs& in, const Attributes& a) { return transpose(in[0], a.dims("axes")); }},
      {"update", updated},
      {"where", [](const Inputs& in, const Attributes&) { return where(in[0], in[1], in[2]); }},
  };
  return table;
}

}  // namespace heddle::testing
