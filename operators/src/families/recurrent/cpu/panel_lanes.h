// A line of a panel, and how a square of a matrix becomes as many lines.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace heddle::cpu_kernels {

template <class T> struct PanelLanes {
  static constexpr std::int64_t kCount = 64 / sizeof(T);  // columns of a panel
  typedef T Type __attribute__((vector_size(64), may_alias));
};

// Exchanges the halves of each pair of lines that are kStep apart, which is one step of a transposition.
template <class T, int kStep> void exchange_halves(typename PanelLanes<T>::Type* lines) {
  constexpr int kCount = PanelLanes<T>::kCount;
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index Indices __attribute__((vector_size(64)));
  Indices low = {}, high = {};
  for (int j = 0; j < kCount; ++j) {
    low[j] = j & kStep ? kCount + j - kStep : j;
    high[j] = j & kStep ? kCount + j : j + kStep;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    if (i & kStep) continue;
    const auto a = lines[i], b = lines[i + kStep];
    lines[i] = __builtin_shuffle(a, b, low);
    lines[i + kStep] = __builtin_shuffle(a, b, high);
  }
}

// to (kCount lines of kCount) = the transpose of kCount rows at `from`, which are `stride` apart. `to` is 64-byte aligned.
template <class T> void transpose_square(const T* from, std::int64_t stride, T* to) {
  constexpr int kCount = PanelLanes<T>::kCount;
  typename PanelLanes<T>::Type lines[kCount];
#pragma GCC unroll 16
  for (int j = 0; j < kCount; ++j) std::memcpy(&lines[j], from + j * stride, sizeof lines[j]);
  if constexpr (kCount > 8) exchange_halves<T, 8>(lines);
  exchange_halves<T, 4>(lines);
  exchange_halves<T, 2>(lines);
  exchange_halves<T, 1>(lines);
#pragma GCC unroll 16
  for (int j = 0; j < kCount; ++j) std::memcpy(to + j * kCount, &lines[j], sizeof lines[j]);
}

}  // namespace heddle::cpu_kernels
