// The arithmetic of reductions.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/collective.h"

namespace heddle::comm_detail {
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
  // Converts to an unsigned type of 32 bits at least, since narrower types would be promoted to int, whose
  // products may overflow.
  template <class T> static auto wide(T value) {
    return static_cast<std::common_type_t<std::make_unsigned_t<T>, unsigned>>(value);
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

// The result is NaN if either operand is, as with NumPy.
struct Min {
  template <class T> static T apply(T a, T b) { return b < a || b != b ? b : a; }
};

struct Max {
  template <class T> static T apply(T a, T b) { return a < b || b != b ? b : a; }
};

template <class T, class Op>
[[gnu::noinline]] void combine(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  T* out = reinterpret_cast<T*>(to);
  const T *left = reinterpret_cast<const T*>(a), *right = reinterpret_cast<const T*>(b);
  // `to` is a or b itself or overlaps neither, so no iteration depends on another one.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = Op::template apply<T>(left[i], right[i]);
}

// f16 and bf16 are combined as f32, and each element is rounded once. kBlock: elements converted at a time,
// which fit into the L1 cache. Their bytes are copied first, because data in messages are not aligned.
constexpr std::size_t kBlock = 1024;

template <class Half> void widen_bytes(const std::byte* from, float* to, std::size_t count) {
  Half half[kBlock];
  std::memcpy(half, from, sizeof(Half) * count);
  widen(half, to, count);
}

template <class Half> void narrow_bytes(const float* from, std::byte* to, std::size_t count) {
  Half half[kBlock];
  narrow(from, half, count);
  std::memcpy(to, half, sizeof(Half) * count);
}

template <class Half, class Op>
void combine_half(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  float left[kBlock], right[kBlock];
  auto* sums = reinterpret_cast<std::byte*>(left);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t at = begin * sizeof(Half), n = std::min(kBlock, count - begin);
    widen_bytes<Half>(a + at, left, n);
    widen_bytes<Half>(b + at, right, n);
    combine<float, Op>(sums, sums, reinterpret_cast<const std::byte*>(right), n);
    narrow_bytes<Half>(left, to + at, n);
  }
}

template <class Half> void scale_half(std::byte* data, std::size_t count, int ranks) {
  float values[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::byte* at = data + begin * sizeof(Half);
    const std::size_t n = std::min(kBlock, count - begin);
    widen_bytes<Half>(at, values, n);
    for (std::size_t i = 0; i < n; ++i) values[i] /= static_cast<float>(ranks);
    narrow_bytes<Half>(values, at, n);
  }
}

template <class T, class Op> constexpr Combine combine_as() {
  if constexpr (is_half_type<T>)
    return combine_half<T, Op>;
  else
    return combine<T, Op>;
}

}  // namespace

Combine combine_of(ReduceOp op, DType dtype) {
  if (op == ReduceOp::avg && dtype == DType::boolean)
    throw InvalidArgument("Communicator: there is no avg of bools");
  return visit_dtype(dtype, [&]<class T>() -> Combine {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        return combine_as<T, Sum>();
      case ReduceOp::prod:
        return combine_as<T, Prod>();
      case ReduceOp::min:
        return combine_as<T, Min>();
      case ReduceOp::max:
        return combine_as<T, Max>();
    }
    throw InvalidArgument("a reduction with the number " + std::to_string(static_cast<int>(op)) +
                          "; the last one is avg");
  });
}

void scale(std::byte* data, std::size_t count, DType dtype, int ranks) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_half_type<T>) {
      scale_half<T>(data, count, ranks);
    } else if constexpr (!std::is_same_v<T, bool>) {
      // The divisor has a wider type, since a small integer type may not hold the number of ranks.
      using Wide =
          std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, std::uint64_t>, std::int64_t, T>;
      T* values = reinterpret_cast<T*>(data);
      for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(values[i] / static_cast<Wide>(ranks));
    }
  });
}

}  // namespace heddle::comm_detail
