// Atomic operations of kernels on the emulated GPU. They are instrumented by ThreadSanitizer, which then reports an
// access to the same address that is not atomic. Included by gpu/emulated_thread.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu/kernel.h"

namespace heddle::on_gpu {
namespace emulated {

template <class T> using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T> Bits<T> bits_of(T value) {
  Bits<T> bits;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T> T value_of(Bits<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
constexpr int memory_order(Order order) {
  return order == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQ_REL;
}

// Replaces the value at `at` by change(value). Returns the value before.
template <Order order, class T, class F> T update(T* at, F change) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA has atomic operations for 4 and 8 bytes");
  auto* const word = reinterpret_cast<Bits<T>*>(at);
  Bits<T> before = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &before, bits_of<T>(change(value_of<T>(before))), false,
                                      memory_order(order), __ATOMIC_RELAXED)) {
  }
  return value_of<T>(before);
}

}  // namespace emulated

// acq_rel: what the storing thread wrote before is seen by a thread that loads the value. Also for memory that the host
// writes meanwhile.
template <Order order = Order::relaxed, class T> T atomic_load(const T* at) {
  using Bits = emulated::Bits<T>;
  return emulated::value_of<T>(__atomic_load_n(
      reinterpret_cast<const Bits*>(at), order == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE));
}
template <Order order = Order::relaxed, class T> void atomic_store(T* at, Same<T> value) {
  using Bits = emulated::Bits<T>;
  __atomic_store_n(reinterpret_cast<Bits*>(at), emulated::bits_of<T>(value),
                   order == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);
}

// Each returns the value before. T is a 32- or 64-bit integer; for atomic_add, atomic_exchange and
// atomic_compare_exchange also float or double.
template <Order order = Order::relaxed, class T> T atomic_add(T* at, Same<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(at, value, emulated::memory_order(order));
  } else {
    return emulated::update<order>(at, [value](T before) { return before + value; });
  }
}
template <Order order = Order::relaxed, class T> T atomic_min(T* at, Same<T> value) {
  static_assert(std::is_integral_v<T>, "CUDA has atomicMin for integers");
  return emulated::update<order>(at, [value](T before) { return value < before ? value : before; });
}
template <Order order = Order::relaxed, class T> T atomic_max(T* at, Same<T> value) {
  static_assert(std::is_integral_v<T>, "CUDA has atomicMax for integers");
  return emulated::update<order>(at, [value](T before) { return value > before ? value : before; });
}
template <Order order = Order::relaxed, class T> T atomic_exchange(T* at, Same<T> value) {
  return emulated::update<order>(at, [value](T) { return value; });
}
template <Order order = Order::relaxed, class T>
T atomic_compare_exchange(T* at, Same<T> expected, Same<T> value) {
  using Bits = emulated::Bits<T>;
  Bits before = emulated::bits_of<T>(expected);
  __atomic_compare_exchange_n(reinterpret_cast<Bits*>(at), &before, emulated::bits_of<T>(value), false,
                              emulated::memory_order(order),
                              order == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE);
  return emulated::value_of<T>(before);
}

}  // namespace heddle::on_gpu
