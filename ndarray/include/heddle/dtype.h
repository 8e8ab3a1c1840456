// Element types of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ostream>
#include <string>

#include <heddle/half.h>

namespace heddle {

// A new dtype goes to the end, since the values are sent between ranks.
enum class DType : std::uint8_t { f32, f64, i32, i64, u8, boolean, f16, bf16, i8, i16, u16, u32, u64 };
inline constexpr DType kAllDTypes[] = {DType::f32,     DType::f64, DType::i32,  DType::i64, DType::u8,
                                       DType::boolean, DType::f16, DType::bf16, DType::i8,  DType::i16,
                                       DType::u16,     DType::u32, DType::u64};
// Whether a number read from outside is the value of a DType.
constexpr bool is_dtype(std::uint64_t number) { return number < std::size(kAllDTypes); }

std::size_t size_of(DType dtype);           // bytes of an element
const char* name_of(DType dtype);           // "f32", ... "bool"
DType dtype_from_name(const std::string&);  // throws InvalidArgument for an unknown name
bool is_floating(DType dtype);
bool is_unsigned(DType dtype);  // true for u8, u16, u32 and u64
inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// NumPy's result_type of two arrays. bf16, which NumPy lacks, follows JAX and PyTorch: with integers and
// bools the result is bf16, with f16 it is f32.
DType promote(DType a, DType b);
// The dtype of sums and products of integers and bools: i64, or u64 if unsigned. Floating dtypes stay.
DType sum_dtype(DType dtype);
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
template <> inline constexpr DType dtype_of<Float16> = DType::f16;
template <> inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <> inline constexpr DType dtype_of<std::int8_t> = DType::i8;
template <> inline constexpr DType dtype_of<std::int16_t> = DType::i16;
template <> inline constexpr DType dtype_of<std::uint16_t> = DType::u16;
template <> inline constexpr DType dtype_of<std::uint32_t> = DType::u32;
template <> inline constexpr DType dtype_of<std::uint64_t> = DType::u64;

namespace ndarray_detail {
[[noreturn]] void refuse_half(DType dtype);
}

// Calls fn.template operator()<T>() with the C++ type of dtype; fn returns the same type for all dtypes. For
// code that computes: throws InvalidArgument for f16 and bf16, which have no arithmetic of their own.
template <class F> decltype(auto) visit_number(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      ndarray_detail::refuse_half(dtype);
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
    case DType::i8:
      return fn.template operator()<std::int8_t>();
    case DType::i16:
      return fn.template operator()<std::int16_t>();
    case DType::u16:
      return fn.template operator()<std::uint16_t>();
    case DType::u32:
      return fn.template operator()<std::uint32_t>();
    case DType::u64:
      return fn.template operator()<std::uint64_t>();
    default:
      return fn.template operator()<float>();
  }
}

// visit_number for all dtypes, also f16 and bf16.
template <class F> decltype(auto) visit_dtype(DType dtype, F&& fn) {
  if (dtype == DType::f16) return fn.template operator()<Float16>();
  if (dtype == DType::bf16) return fn.template operator()<BFloat16>();
  return visit_number(dtype, fn);
}

}  // namespace heddle
