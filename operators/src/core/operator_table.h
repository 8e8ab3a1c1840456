// How operators are registered. An entry has what the type of a C++ function does not tell; the kinds of the
// arguments and of the result follow from the function's type. The code that calls a function is compiled
// once for each type, not for each operator.
//
//   HEDDLE_OPERATORS(scan) {  // in namespace heddle, in the file of the family
//     table.family("Scans");
//     table.add("cumsum", cumsum, {"Sums along `axis` up to each element.", {"x", {"axis", -1}}, "that of x", kDifferentiable});
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/checked_call.h"
#include "core/parameter.h"

namespace heddle::operators_detail {

// The dtypes that an array may have; bits: integers and bool.
enum class DTypes : std::uint8_t { all, floating, no_bool, boolean, integers, bits, f32, i8, i32 };

struct None {};
inline constexpr None kNone{};

// The default value of an argument.
struct Default {
  enum class Kind : std::uint8_t { required, none, boolean, integer, real, text, pair, dtype, device };
  constexpr Default() = default;  // an argument without a default value, which is required
  constexpr Default(None) : kind(Kind::none) {}
  constexpr Default(bool value) : kind(Kind::boolean), boolean(value) {}
  constexpr Default(int value) : kind(Kind::integer), integer(value) {}
  constexpr Default(double value) : kind(Kind::real), real(value) {}
  constexpr Default(const char* value) : kind(Kind::text), text(value) {}
  constexpr Default(Pair value) : kind(Kind::pair), pair(value) {}
  constexpr Default(DType value) : kind(Kind::dtype), dtype(value) {}
  constexpr Default(Device value) : kind(Kind::device), device(value) {}

  Kind kind = Kind::required;
  bool boolean = false;
  int integer = 0;
  double real = 0;
  const char* text = nullptr;
  Pair pair{};
  DType dtype = DType::f32;
  Device device{};
};

// An argument: its keyword, its default value, and the dtypes or the words that it accepts.
struct Argument {
  Argument(const char* keyword, DTypes accepted = DTypes::all) : name(keyword), dtypes(accepted) {}
  Argument(const char* keyword, Default otherwise, DTypes accepted = DTypes::all)
      : name(keyword), value(otherwise), dtypes(accepted) {}
  Argument(const char* keyword, Default otherwise, std::span<const char* const> words)
      : name(keyword), value(otherwise), choices(words) {}

  const char* name;
  Default value{};
  DTypes dtypes = DTypes::all;
  std::span<const char* const> choices{};
};

inline constexpr bool kDifferentiable = true;

// The range from which tests draw the elements of arguments.
struct Domain {
  double low = -4, high = 4;
};

// What is registered of an operator. `result` is the dtype of the result, in words. `numpy` is a Python
// expression with the same value, which may use the arguments, np and math; empty if there is none. An entry
// lives no longer than the call in which it is written.
struct Entry {
  std::string documentation;
  std::initializer_list<Argument> arguments;
  const char* result = "";
  bool differentiable = false;
  const char* numpy = "";
  Domain domain{};
};

struct OperatorCode {
  void (*function)();
  void (*call)(void (*function)(), const CheckedCall& call);
};

class OperatorTable {
 public:
  explicit OperatorTable(std::vector<OperatorInfo>& operators) : operators_(operators) {}

  // Sets the heading of the operators that are added from now on.
  void family(const char* heading) { family_ = heading; }

  // `function` takes the entry's arguments and then a Where; Parameter must be specialised for each
  // argument's type. A function that returns nothing changes its first argument; a std::vector or a
  // std::array is a list of arrays. Throws Error for a name, or a number of arguments, that does not fit.
  template <class Result, class... A>
  void add(const char* name, Result (*function)(A...), const Entry& entry) {
    static constexpr ParameterType types[] = {Parameter<std::remove_cvref_t<A>>::type...};
    insert(name, entry, std::span(types).first(sizeof...(A) - 1), result_of<Result>,
           {reinterpret_cast<void (*)()>(function), call_as<Result, A...>});
  }

 private:
  enum class Gives : std::uint8_t { nothing, array, row_sparse, arrays };
  template <class Result>
  static constexpr Gives result_of = std::is_void_v<Result>              ? Gives::nothing
                                     : std::is_same_v<Result, RowSparse> ? Gives::row_sparse
                                     : std::is_same_v<Result, NDArray>   ? Gives::array
                                                                         : Gives::arrays;

  template <class Result, class... A> static void call_as(void (*untyped)(), const CheckedCall& call) {
    auto* function = reinterpret_cast<Result (*)(A...)>(untyped);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (std::is_void_v<Result>) {
        function(Parameter<std::remove_cvref_t<A>>::of(call, I)...);
      } else {
        call.give(function(Parameter<std::remove_cvref_t<A>>::of(call, I)...));
      }
    }
    (std::index_sequence_for<A...>());
  }
  void insert(const char* name, const Entry& entry, std::span<const ParameterType> types, Gives result,
              OperatorCode code);

  const char* family_ = "";
  std::vector<OperatorInfo>& operators_;
};

// Heads the function that registers the operators of one file. The build makes the list of these functions by looking for this word in
// the sources of the module (cmake/registrations.cmake), so that the linker keeps them in programs that use the static library.
#define HEDDLE_OPERATORS(name)                            \
  namespace operators_detail {                            \
  void register_##name##_operators(OperatorTable& table); \
  }                                                       \
  void operators_detail::register_##name##_operators(OperatorTable& table)

// Calls all functions headed by HEDDLE_OPERATORS.
void register_operators(OperatorTable& table);

}  // namespace heddle::operators_detail
