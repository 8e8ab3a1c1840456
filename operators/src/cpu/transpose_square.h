// 16 x 16 elements of 2 or 4 bytes, transposed in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace heddle::cpu_kernels {

inline constexpr int kLanes = 16;

// The bits of 16 elements of `bytes` bytes.
template <int bytes> struct LanesOf {
  using Bits = std::conditional_t<bytes == 4, std::int32_t, std::int16_t>;
  typedef Bits Type __attribute__((vector_size(kLanes * bytes)));
};
template <class T> using Lanes = typename LanesOf<sizeof(T)>::Type;

template <class T> Lanes<T> load(const T* from) {
  Lanes<T> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Swaps the off-diagonal quarters of all Step x Step blocks on the rows first and first + Step.
template <int Step, class V> void swap_blocks(V& first, V& second) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    const V low = __builtin_shufflevector(first, second, (I & Step ? kLanes + I - Step : I)...);
    const V high = __builtin_shufflevector(first, second, (I & Step ? kLanes + I : I + Step)...);
    first = low;
    second = high;
  }
  (std::make_integer_sequence<int, kLanes>());
}

template <int Step, class V> void transpose_step(V* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Step) == 0) swap_blocks<Step>(rows[i], rows[i + Step]);
  }
}

// Transposes a 16 x 16 matrix in registers: blocks of 1, 2, 4 and 8 are swapped (Eklundh, IEEE Trans.
// Computers 1972).
template <class V> void transpose(V* rows) {
  transpose_step<1>(rows);
  transpose_step<2>(rows);
  transpose_step<4>(rows);
  transpose_step<8>(rows);
}

// Transposes 16 x 16 elements of `from`, whose rows are `from_stride` apart, to `to`. `change` gets each row of 16 pixels that is
// written, if that are `to`'s.
template <class T, class Change>
void transpose_square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                      const Change& change) {
  Lanes<T> rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_stride);
  transpose(rows);
  for (int i = 0; i < kLanes; ++i) {
    const Lanes<T> row = change(rows[i]);
    std::memcpy(to + i * to_stride, &row, sizeof row);
  }
}

}  // namespace heddle::cpu_kernels
