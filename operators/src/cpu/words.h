// Access to elements by their width.
#pragma once

#include <cstddef>
#include <type_traits>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// As visit_number, for function objects for which a signed integer is equivalent to the unsigned one of its
// width: those that only compare for equality, or compute modulo 2^n. They are compiled once for both integer
// types.
template <class F> void visit_word(DType dtype, F&& fn) {
  const DType word = dtype == DType::i8    ? DType::u8
                     : dtype == DType::i16 ? DType::u16
                     : dtype == DType::i32 ? DType::u32
                     : dtype == DType::i64 ? DType::u64
                                           : dtype;
  visit_number(word, [&]<class T> {
    if constexpr (!std::is_integral_v<T> || std::is_unsigned_v<T>) fn.template operator()<T>();
  });
}

// The elements as T, which has the width of their dtype.
template <class T> const T* elements(const NDArray& x) {
  return reinterpret_cast<const T*>(x.data<const std::byte>());
}

}  // namespace heddle::cpu_kernels
