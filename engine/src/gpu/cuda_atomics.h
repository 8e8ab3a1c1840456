// Atomic operations of kernels for nvcc; gpu/emulated_atomics.h has the same for the emulated GPU. Included by
// gpu/cuda_thread.h.
#pragma once

#include "gpu/kernel.h"

namespace heddle::on_gpu {
namespace cuda {

// 64-bit integers and size_t are `unsigned long` in some ABIs, for which CUDA has no overloads.
template <class T>
using AtomicWord = std::conditional_t<
    !std::is_integral_v<T>, T,
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>,
                       std::conditional_t<std::is_signed_v<T>, int, unsigned>>>;
template <class T>
using SumWord =
    std::conditional_t<std::is_integral_v<T> && sizeof(T) == 8, unsigned long long, AtomicWord<T>>;
template <class T> using BitWord = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;

template <Order order, class F> __device__ auto ordered(F operation) {
  if constexpr (order == Order::acq_rel) __threadfence();
  const auto before = operation();
  if constexpr (order == Order::acq_rel) __threadfence();
  return before;
}

}  // namespace cuda

// acq_rel: what the storing thread wrote before is seen by a thread that loads the value. Also for memory that the host
// writes meanwhile.
template <Order order = Order::relaxed, class T> __device__ T atomic_load(const T* at) {
  const T value = *static_cast<const volatile T*>(at);
  if constexpr (order == Order::acq_rel) __threadfence_system();
  return value;
}
template <Order order = Order::relaxed, class T> __device__ void atomic_store(T* at, Same<T> value) {
  if constexpr (order == Order::acq_rel) __threadfence_system();
  *static_cast<volatile T*>(at) = value;
}

// Each returns the value before. T is a 32- or 64-bit integer; for atomic_add, atomic_exchange and
// atomic_compare_exchange also float or double.
template <Order order = Order::relaxed, class T> __device__ T atomic_add(T* at, Same<T> value) {
  using Word = cuda::SumWord<T>;
  return static_cast<T>(
      cuda::ordered<order>([=] { return atomicAdd(reinterpret_cast<Word*>(at), static_cast<Word>(value)); }));
}
template <Order order = Order::relaxed, class T> __device__ T atomic_min(T* at, Same<T> value) {
  using Word = cuda::AtomicWord<T>;
  return static_cast<T>(
      cuda::ordered<order>([=] { return atomicMin(reinterpret_cast<Word*>(at), static_cast<Word>(value)); }));
}
template <Order order = Order::relaxed, class T> __device__ T atomic_max(T* at, Same<T> value) {
  using Word = cuda::AtomicWord<T>;
  return static_cast<T>(
      cuda::ordered<order>([=] { return atomicMax(reinterpret_cast<Word*>(at), static_cast<Word>(value)); }));
}
template <Order order = Order::relaxed, class T> __device__ T atomic_exchange(T* at, Same<T> value) {
  using Word = cuda::BitWord<T>;
  const Word bits = cuda::Words<T>::of(value);
  return cuda::Words<T>::back(
      cuda::ordered<order>([=] { return atomicExch(reinterpret_cast<Word*>(at), bits); }));
}
template <Order order = Order::relaxed, class T>
__device__ T atomic_compare_exchange(T* at, Same<T> expected, Same<T> value) {
  using Word = cuda::BitWord<T>;
  const Word old = cuda::Words<T>::of(expected), bits = cuda::Words<T>::of(value);
  return cuda::Words<T>::back(
      cuda::ordered<order>([=] { return atomicCAS(reinterpret_cast<Word*>(at), old, bits); }));
}

}  // namespace heddle::on_gpu
