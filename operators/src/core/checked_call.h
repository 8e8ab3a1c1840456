// Converts the arguments of a call by name to the parameters of the C++ function that is called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle {

class Generator;
class RowSparse;
struct FunctionInfo;
struct OperatorInfo;
struct OperatorValue;
enum class ArgumentKind : std::uint8_t;

namespace operators_detail {

using Pair = std::array<std::int64_t, 2>;

// One value of the right kind for each argument of an operator, and storage for the result. Files of
// operators include this header. It leaves the type OperatorValue, which takes long to compile, to
// operator_call.cc.
class CheckedCall {
 public:
  // Throws InvalidArgument for a value whose kind is not that of the operator's argument. The arguments must outlive this
  // object.
  CheckedCall(const FunctionInfo& op, std::span<const OperatorValue* const> values, Where where,
              std::vector<OperatorValue>& results);

  Where where() const { return where_; }
  const OperatorValue& value(std::size_t i) const { return *values_[i]; }
  bool is_none(std::size_t i) const;

  // These return the value of argument i, in the C++ type of the argument's kind.
  const NDArray& array(std::size_t i) const;  // undefined for None
  const std::vector<NDArray>& arrays(std::size_t i) const;
  const RowSparse& row_sparse(std::size_t i) const;
  const std::vector<RowSparse>& row_sparse_list(std::size_t i) const;
  Operand operand(std::size_t i) const;
  Scalar number(std::size_t i) const;
  double real(std::size_t i) const;
  bool boolean(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  int small_integer(std::size_t i) const;  // throws InvalidArgument if it is out of int's range
  const std::string& text(std::size_t i) const;
  DType dtype(std::size_t i) const;  // throws InvalidArgument for an unknown name
  Device device(std::size_t i) const;
  Generator& generator(std::size_t i) const;  // None: the thread's default generator
  Dims integers(std::size_t i) const;
  // None gives an empty list, which the function takes for all axes. So an explicit empty list throws
  // InvalidArgument if the argument takes None.
  Dims axes(std::size_t i) const;
  Pair pair(std::size_t i) const;  // throws InvalidArgument unless there are 2 integers, or 1 for both

  void give(NDArray result) const;
  void give(RowSparse result) const;
  void give(std::vector<NDArray> result) const;
  template <std::size_t n> void give(const std::array<NDArray, n>& result) const {
    give(std::vector<NDArray>(result.begin(), result.end()));
  }

 private:
  [[noreturn]] void refuse(std::size_t i, const std::string& wanted) const;
  const FunctionInfo& op_;
  std::span<const OperatorValue* const> values_;
  Where where_;
  std::vector<OperatorValue>& results_;
};

}  // namespace operators_detail
}  // namespace heddle
