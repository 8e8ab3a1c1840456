// HEDDLE_FUNCTOR marks functions that run on the CPU and on GPUs.
#pragma once

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define HEDDLE_FUNCTOR __host__ __device__
#else
#define HEDDLE_FUNCTOR
#endif

namespace heddle::functors {

// The type in which integers are computed, at least 32 bits and unsigned. NumPy's integers wrap around. That is
// undefined for C++'s signed integers, and for small unsigned ones too, because they are promoted to int.
template <class T>
using Wrapping = std::make_unsigned_t<std::conditional_t<sizeof(T) <= 4, std::int32_t, std::int64_t>>;

// x < 0, without a warning for unsigned types.
template <class T> HEDDLE_FUNCTOR constexpr bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < T{0};
}

}  // namespace heddle::functors
