// For tests of stores with arrays on GPUs.
#pragma once

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

namespace heddle::test {

// GPU i, or with fewer GPUs one that has come before.
inline Device gpu_of(int i) { return gpu(i % gpu_count()); }

// Whether two arrays have one dtype and shape, and the same bits, wherever they are.
inline bool same(const NDArray& a, const NDArray& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const NDArray x = a.detach().copy_to(cpu()), y = b.detach().copy_to(cpu());
  x.wait(), y.wait();
  const std::size_t bytes = static_cast<std::size_t>(x.size()) * size_of(x.dtype());
  return bytes == 0 || std::memcmp(x.data<const std::byte>(), y.data<const std::byte>(), bytes) == 0;
}

inline NDArray numbers(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  const NDArray all = Generator(seed).uniform(shape, -40, 40);
  return dtype == DType::boolean ? all > 0 : all.astype(dtype);
}

// Two layers whose sums are short, so that CPU and GPU add in one order but for the products' kernels.
inline Sequential small_net(std::uint64_t seed, Device device) {
  manual_seed(seed);
  Sequential net{Dense(6, 9, {.relu = true}), Dense(9, 3)};
  net.to(device);
  return net;
}

}  // namespace heddle::test
