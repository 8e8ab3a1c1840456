// The arithmetic of reductions.
#include <algorithm>
#include <type_traits>

#include "collective.h"

namespace heddle::detail {
namespace {

struct Sum {
  template <class T> static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) return a || b;
    // Integers wrap around, as NumPy's do.
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(wide(a) + wide(b));
    else
      return a + b;
  }
  template <class T> static std::make_unsigned_t<T> wide(T value) {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
};

struct Prod {
  template <class T> static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Sum::wide(a) * Sum::wide(b));
    else
      return a * b;
  }
};

// A NaN on either side stays, as with NumPy.
struct Min {
  template <class T> static T apply(T a, T b) { return b < a || b != b ? b : a; }
};

struct Max {
  template <class T> static T apply(T a, T b) { return a < b || b != b ? b : a; }
};

template <class T, class Op>
void combine(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  T* out = reinterpret_cast<T*>(to);
  const T *left = reinterpret_cast<const T*>(a), *right = reinterpret_cast<const T*>(b);
  // `to` is a or b itself or far from both, so that no element depends on the one before it.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = Op::template apply<T>(left[i], right[i]);
}

}  // namespace

Combine combine_of(ReduceOp op, DType dtype) {
  if (op == ReduceOp::avg && dtype == DType::boolean) throw InvalidArgument("there is no avg of bools");
  return visit_dtype(dtype, [&]<class T>() -> Combine {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        return combine<T, Sum>;
      case ReduceOp::prod:
        return combine<T, Prod>;
      case ReduceOp::min:
        return combine<T, Min>;
      case ReduceOp::max:
        return combine<T, Max>;
    }
    throw InvalidArgument("a reduction with the number " + std::to_string(static_cast<int>(op)) +
                          "; the last one is avg");
  });
}

void scale(std::byte* data, std::size_t count, DType dtype, int ranks) {
  visit_dtype(dtype, [&]<class T>() {
    T* values = reinterpret_cast<T*>(data);
    if constexpr (!std::is_same_v<T, bool>) {
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / static_cast<T>(ranks));
    }
  });
}

}  // namespace heddle::detail
