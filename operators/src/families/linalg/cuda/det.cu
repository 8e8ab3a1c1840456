// Determinants from factors, and what their derivatives are made of. A thread computes a matrix, or a row of products, in the CPU's
// order.
#include <cmath>

#include "core/scaled.h"
#include "families/linalg/cuda/kernels.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels::linalg {
namespace {

using functors::Scaled;

template <class K> const char* over(void* stream, long long elements, const K& kernel) {
  if (elements == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), elements, kernel);
}

template <class T> HEDDLE_DEVICE T sign_of(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
template <class T> HEDDLE_DEVICE T sign_of_exchanges(const int* pivots, long long n) {
  T sign = 1;
  for (long long i = 0; i < n; ++i) {
    if (pivots[i] != i + 1) sign = -sign;
  }
  return sign;
}

template <class T> struct Determinant {
  const T* factors;
  const int* pivots;
  long long n, count;
  T *first, *logarithms;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long q = thread.global_index(); q < count; q += thread.global_size()) {
      const T* const x = factors + q * n * n;
      T sign = sign_of_exchanges<T>(pivots + q * n, n);
      if (!logarithms) {
        Scaled product{static_cast<double>(sign), 0};
        for (long long i = 0; i < n; ++i) product.multiply(static_cast<double>(x[i * (n + 1)]));
        first[q] = static_cast<T>(product.number());
        continue;
      }
      T sum = 0;
      for (long long i = 0; i < n; ++i) {
        sign *= sign_of(x[i * (n + 1)]);
        sum += std::log(std::abs(x[i * (n + 1)]));
      }
      first[q] = sign;
      logarithms[q] = sum;
    }
  }
};

template <class T> struct Sign {
  const T* factors;
  const int* pivots;
  long long n, count;
  T* signs;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long q = thread.global_index(); q < count; q += thread.global_size()) {
      T sign = sign_of_exchanges<T>(pivots + q * n, n);
      for (long long i = 0; i < n; ++i) {
        if (factors[q * n * n + i * (n + 1)] < 0) sign = -sign;
      }
      signs[q] = sign;
    }
  }
};

template <class T> struct Products {
  const T *s, *signs;
  long long n, count;
  bool single;
  double* before;
  T* products;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long lines = single ? count : n * count;
    for (long long line = thread.global_index(); line < lines; line += thread.global_size()) {
      const long long q = single ? line : line / n, without = single ? -1 : line % n;
      const T* const values = s + q * n;
      double* const kept = before + 2 * line * n;
      Scaled product{static_cast<double>(signs[q]), 0};
      for (long long j = 0; j < n; ++j) {
        kept[2 * j] = product.value;
        kept[2 * j + 1] = static_cast<double>(product.exponent);
        product.multiply(j == without ? 1.0 : static_cast<double>(values[j]));
      }
      product = Scaled{1, 0};
      for (long long j = n; j-- > 0;) {
        const Scaled first{kept[2 * j], static_cast<std::int64_t>(kept[2 * j + 1])};
        products[line * n + j] = static_cast<T>(first.times(product));
        product.multiply(j == without ? 1.0 : static_cast<double>(values[j]));
      }
    }
  }
};

template <class T> struct Second {
  const T *products, *h;
  long long n, count;
  T* made;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long each = n * n;
    for (long long e = thread.global_index(); e < each * count; e += thread.global_size()) {
      const long long r = e % each / n, c = e % n;
      const T *const of = products + e / each * each, *const between = h + e / each * each;
      T sum = 0;
      if (r != c) sum = -of[c * n + r] * between[c * n + r];
      for (long long i = 0; r == c && i < n; ++i) {
        if (i != r) sum += of[i * n + r] * between[i * n + i];
      }
      made[e] = sum;
    }
  }
};

}  // namespace

template <class T>
const char* launch_det(void* stream, const T* factors, const int* pivots, long long n, long long count,
                       T* first, T* logarithms) {
  return over(stream, count, Determinant<T>{factors, pivots, n, count, first, logarithms});
}
template <class T>
const char* launch_sign(void* stream, const T* factors, const int* pivots, long long n, long long count,
                        T* signs) {
  return over(stream, count, Sign<T>{factors, pivots, n, count, signs});
}
template <class T>
const char* launch_products(void* stream, const T* s, const T* signs, long long n, long long count,
                            bool single, double* before, T* products) {
  return over(stream, single ? count : n * count, Products<T>{s, signs, n, count, single, before, products});
}
template <class T>
const char* launch_second(void* stream, const T* products, const T* h, long long n, long long count,
                          T* made) {
  return over(stream, n * n * count, Second<T>{products, h, n, count, made});
}

#define HEDDLE_INSTANTIATE(T)                                                                               \
  template const char* launch_det(void*, const T*, const int*, long long, long long, T*, T*);               \
  template const char* launch_sign(void*, const T*, const int*, long long, long long, T*);                  \
  template const char* launch_products(void*, const T*, const T*, long long, long long, bool, double*, T*); \
  template const char* launch_second(void*, const T*, const T*, long long, long long, T*);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)

}  // namespace heddle::cuda_kernels::linalg
