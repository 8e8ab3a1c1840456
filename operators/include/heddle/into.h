// Results in memory that the caller has: NumPy's out=.
//
//   into(y, add, a, b);                                                         // y = a + b, computed in y's memory
//   into(y, [](auto& a, auto& b) { return sqrt(a * a + b * b); }, a, b);        // so is what has several steps
#pragma once

#include <type_traits>
#include <vector>

#include <heddle/operand.h>

namespace heddle {
namespace operators_detail {

// Whether a and b have the same storage, the same dtype and the same elements in the same order.
bool same_elements(const NDArray& a, const NDArray& b);

// Memory for a result of the library call that the thread is in: make_result() gives it once, to a result of its
// dtype, engine and device, and of its shape up to axes of length 1. Ops that the thread runs meanwhile do not
// get it. Of nested loans the innermost counts.
class ResultLoan {
 public:
  ResultLoan() noexcept;
  ~ResultLoan();
  ResultLoan(const ResultLoan&) = delete;
  ResultLoan& operator=(const ResultLoan&) = delete;

  void lend(const NDArray& contiguous) { memory_ = contiguous.detach(); }
  // Returns an undefined array if no lent memory fits.
  NDArray take(const NDArray& like, const Shape& shape, DType dtype);

 private:
  NDArray memory_;  // undefined before lend() is called and once take() has returned the memory
  const CallSite* const lender_;
  ResultLoan* const outer_;
};

// Lends the memory of an array to the operators that a function calls. `function` is the name of that
// function in errors. If an argument uses the lent memory, or might use it, the result is computed in other
// memory and copied.
class OutputCall {
 public:
  OutputCall(const char* function, const NDArray& out);

  // Declares an array that the function reads. Throws Error where a gradient would be recorded.
  void reads(const NDArray& input);
  void may_read_anything() { lends_ = false; }
  template <class T> void takes(const T& argument) {
    if constexpr (std::is_same_v<T, NDArray>) {
      reads(argument);
    } else if constexpr (std::is_same_v<T, Operand>) {
      if (argument.is_array) reads(argument.array);
    } else if constexpr (std::is_same_v<T, std::vector<NDArray>>) {
      for (const NDArray& one : argument) reads(one);
    } else if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T> && !std::is_same_v<T, Scalar>) {
      may_read_anything();
    }
  }
  void lend();
  // Throws InvalidArgument unless the result has the shape of `out` and a dtype that fits.
  void complete(const NDArray& result);

 private:
  const char* const function_;
  const NDArray out_;
  bool lends_ = true;
  ResultLoan loan_;
};

template <class Function, class... Args>
NDArray call_with_site(const Function& function, Where where, const Args&... args) {
  constexpr bool kWithPlace = std::is_invocable_v<const Function&, const Args&..., Where>;
  static_assert(
      kWithPlace || std::is_invocable_v<const Function&, const Args&...>,
      "into: the function does not take these arguments; one with default values is called in a lambda");
  if constexpr (kWithPlace) {
    return function(args..., where);
  } else {
    return function(args...);
  }
}

}  // namespace operators_detail

// Writes function(args...) into out's own memory, so that views of it see the values, and returns it. Most
// functions of this library compute in that memory; where an argument shares it, and for lambdas, which may
// keep or read other arrays, the result is computed elsewhere and copied by another op. Throws
// InvalidArgument unless the result has out's shape and a dtype whose kind fits, and Error where a gradient
// would be recorded; out's values are undetermined then.
template <class Function, class... Args>
NDArray into(const ArrayArgument& out, const Function& function, const Args&... args) {
  const CallSite site(out.where);
  operators_detail::OutputCall call("into", out.array);
  (call.takes(args), ...);
  if constexpr (std::is_function_v<Function> || std::is_function_v<std::remove_pointer_t<Function>>)
    call.lend();
  call.complete(operators_detail::call_with_site(function, out.where, args...));
  return out.array;
}

// into() for overloaded functions of one array or of two operands, such as exp, hypot, or max of a and b.
inline NDArray into(const ArrayArgument& out, NDArray (*function)(const NDArray&, Where), const NDArray& x) {
  return into<NDArray(const NDArray&, Where)>(out, *function, x);
}
inline NDArray into(const ArrayArgument& out, NDArray (*function)(const Operand&, const Operand&, Where),
                    const Operand& a, const Operand& b) {
  return into<NDArray(const Operand&, const Operand&, Where)>(out, *function, a, b);
}

}  // namespace heddle
