// Element types of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace heddle {

enum class DType : std::uint8_t { f32, f64, i32, i64, u8, boolean };

std::size_t size_of(DType dtype);           // bytes an element
const char* name_of(DType dtype);           // "f32", ... "bool"
DType dtype_from_name(const std::string&);  // throws InvalidArgument
bool is_floating(DType dtype);
DType promote(DType a, DType b);  // NumPy's result_type of two arrays
std::ostream& operator<<(std::ostream& out, DType dtype);

// The DType of a C++ type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no DType for this type");
  return DType::f32;
}();
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <> inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <> inline constexpr DType dtype_of<bool> = DType::boolean;

// Calls fn.template operator()<T>() with the C++ type of dtype; all calls return one type.
template <class F> decltype(auto) visit_dtype(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::f64:
      return fn.template operator()<double>();
    case DType::i32:
      return fn.template operator()<std::int32_t>();
    case DType::i64:
      return fn.template operator()<std::int64_t>();
    case DType::u8:
      return fn.template operator()<std::uint8_t>();
    case DType::boolean:
      return fn.template operator()<bool>();
    default:
      return fn.template operator()<float>();
  }
}

}  // namespace heddle
