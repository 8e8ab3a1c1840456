// Operators that change an array in place, by name. C++ has members and the infix operators for them.
#include <variant>

#include <heddle/elementwise.h>

#include "registry/operator_table.h"

namespace heddle::operators_detail {

// A handle's copy is the same array.
void register_in_place(OperatorTable& table) {
  table.family("In place");
  const std::string kept = " b is broadcast to x; the result's kind has to fit the dtype of x.";
  table.add("add_", +[](NDArray x, const Operand& b, Where) { x += b; },
            {.documentation = "x += b." + kept, .arguments = {"x", "b"}});
  table.add("subtract_", +[](NDArray x, const Operand& b, Where) { x -= b; },
            {.documentation = "x -= b." + kept, .arguments = {{"x", DTypes::no_bool}, "b"}});
  table.add("multiply_", +[](NDArray x, const Operand& b, Where) { x *= b; },
            {.documentation = "x *= b." + kept, .arguments = {"x", "b"}});
  table.add("divide_", +[](NDArray x, const Operand& b, Where) { x /= b; },
            {.documentation = "x /= b." + kept, .arguments = {{"x", DTypes::floating}, "b"}});
  table.add("assign_", +[](const NDArray& x, const NDArray& source, Where where) { x.assign(source, where); },
            {.documentation = "Copies the values of source, broadcast and converted, into x.",
             .arguments = {"x", "source"}});
  table.add(
      "fill_", +[](const NDArray& x, Scalar value, Where where) { fill_with(x, value, where); },
      {.documentation = "Sets every element of x to value, which saturates at the ends of an integer dtype.",
       .arguments = {"x", "value"}});
}

}  // namespace heddle::operators_detail
