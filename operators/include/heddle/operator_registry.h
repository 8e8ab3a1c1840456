// Every operator by its name: its arguments, its results, and a call whose arguments are checked at run time.
// Bindings to other languages, `heddle operators` and docs/operators.md are made from it. C++ programs call
// the functions themselves.
//
//   call_operator("softmax", {x}, {{"axis", 0}});  // softmax(x, 0)
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/function_info.h>

namespace heddle {

namespace operators_detail {
struct OperatorCode;
}

struct OperatorInfo : FunctionInfo {
  std::vector<ArgumentKind> results{};  // array, row_sparse, arrays (one value that is a list), or no result
  std::string result_dtype{};           // the dtype of the result in words; empty if there is no result
  bool differentiable = false;          // whether some argument gets a gradient
  bool in_place = false;  // whether the operator writes its first argument; its name then ends with _
  // An equal expression in NumPy, such as "np.log1p(x) / np.log(2)"; empty if NumPy has none.
  std::string numpy{};
  // Range from which tests that compare the operator with `numpy` draw elements.
  std::array<double, 2> domain{-4, 4};

  std::shared_ptr<const operators_detail::OperatorCode> code{};  // the function that call_operator() calls
};

// All operators, by family and then in the order of registration. Any thread; the same objects for the life of the process.
std::span<const OperatorInfo> operators();
const OperatorInfo* find_operator(std::string_view name);  // null if no operator has this name

// Calls the function of `op`: `values` are its first arguments, in order, `named` are others; the rest have
// their defaults. Returns at once and records gradients as that function does; its ops and errors name
// `where`. Throws InvalidArgument for too many values, for an argument that is missing, unknown, given twice
// or of another kind, and whatever the function throws. Any thread.
OperatorValues call_operator(const OperatorInfo& op, std::span<const OperatorValue> values,
                             std::span<const NamedValue> named = {}, Where where = Where::current());
// Calls an operator whose only result is an array, and writes that into out's own memory as into() does
// (into.h). Throws what into() throws, and InvalidArgument for an operator with other results.
void call_operator_into(const OperatorInfo& op, std::span<const OperatorValue> values,
                        std::span<const NamedValue> named, const NDArray& out,
                        Where where = Where::current());
bool takes_out(const OperatorInfo& op);  // whether call_operator_into can call op
// Calls the operator named `name`; throws InvalidArgument if there is none.
OperatorValues call_operator(std::string_view name, const OperatorValues& values,
                             const std::vector<NamedValue>& named = {}, Where where = Where::current());

}  // namespace heddle
