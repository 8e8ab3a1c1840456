// The kernels of gradients of products: the CPU's functions for a line, each by one thread, which keeps what it needs in memory of
// its own. Lines are taken in groups, so that this memory does not grow with their number.
#pragma once

#include "cuda/team.h"
#include "families/scan/cuda/kernels.h"
#include "families/scan/products_functors.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

HEDDLE_DEVICE inline long long begin_of(const ScanLines& lines, long long line) {
  return line / lines.inner * lines.length * lines.inner + line % lines.inner;
}

template <class T> struct CumprodGradient {
  ScanLines lines;
  const T* g;
  functors::WeightedSum* sums;  // `length` for each line of the group
  long long first, end;         // lines of the group

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long line = first + thread.global_index();
    if (line >= end) return;
    const long long at = begin_of(lines, line);
    functors::cumprod_gradient(g + at, static_cast<const T*>(lines.x) + at, static_cast<T*>(lines.y) + at,
                               static_cast<std::int64_t>(lines.length),
                               static_cast<std::int64_t>(lines.inner), sums + (line - first) * lines.length);
  }
};

// A team of threads takes a line. Where no product of elements of the line can leave the range, the product of the others is that of
// all, divided by the element; else one thread multiplies.
template <class T> struct ProductOfOthers {
  Teams teams;
  ScanLines lines;
  functors::Scaled* behind;  // `length` for each line of the group
  long long first, end;      // lines of the group

  struct Product {
    double value, exponents;  // of all elements; the sum of their exponents' sizes
  };
  struct Join {
    HEDDLE_DEVICE Product operator()(Product a, Product b) const {
      return {a.value * b.value, a.exponents + b.exponents};
    }
  };
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long line = first + team.line();
    const bool exists = line < end;
    const T* const x = static_cast<const T*>(lines.x) + (exists ? begin_of(lines, line) : 0);
    T* const y = static_cast<T*>(lines.y) + (exists ? begin_of(lines, line) : 0);
    Product product{1, 0};
    for (long long i = team.position(); exists && i < lines.length; i += team.size()) {
      const double value = static_cast<double>(x[i * lines.inner]);
      int exponent = 10000;
      if (value != 0 && std::isfinite(value)) std::frexp(value, &exponent);
      product = Join{}(product, {value, static_cast<double>(exponent < 0 ? -exponent : exponent) + 1});
    }
    product = team.all(product, Join{});
    if (!exists) return;
    if (product.exponents < 1000) {
      for (long long i = team.position(); i < lines.length; i += team.size())
        y[i * lines.inner] = static_cast<T>(product.value / static_cast<double>(x[i * lines.inner]));
    } else if (team.position() == 0) {
      functors::product_of_others(x, y, static_cast<std::int64_t>(lines.length),
                                  static_cast<std::int64_t>(lines.inner),
                                  behind + (line - first) * lines.length);
    }
  }
};

// How many lines of `bytes` of memory each are taken at once: enough for all threads of a GPU where memory allows it.
inline long long group_of(long long lines, long long length, long long bytes) {
  constexpr long long kElements = 4ll << 20, kLeast = 1024, kMostBytes = 1ll << 30;
  const long long wanted = kElements / length > kLeast ? kElements / length : kLeast;
  const long long fit = kMostBytes / bytes > 1 ? kMostBytes / bytes : 1;
  const long long group = wanted < fit ? wanted : fit;
  return group < lines ? group : lines;
}

// Launches a kernel for groups of lines; each line needs `length` elements of type E, which launch(memory, first, end) uses.
template <class E, class Launch>
const char* in_groups(const ScanLines& lines, ScratchBlocks& scratch, const Launch& launch) {
  const long long count = lines.outer * lines.inner;
  const long long group = group_of(count, lines.length, lines.length * static_cast<long long>(sizeof(E)));
  E* const memory = scratch.take_array<E>(group * lines.length);
  for (long long first = 0; first < count; first += group) {
    const long long end = first + group < count ? first + group : count;
    if (const char* problem = launch(memory, first, end)) return problem;
  }
  return nullptr;
}

template <class T>
const char* cumprod_gradient(void* stream, const ScanLines& lines, const void* g, ScratchBlocks& scratch) {
  const auto launch = [&](functors::WeightedSum* sums, long long first, long long end) {
    const CumprodGradient<T> kernel{lines, static_cast<const T*>(g), sums, first, end};
    return launch_grid(stream, dim3(on_gpu::blocks_for(end - first, kTeamThreads, 1u << 30)), kernel);
  };
  return in_groups<functors::WeightedSum>(lines, scratch, launch);
}

template <class T>
const char* product_of_others(void* stream, const ScanLines& lines, ScratchBlocks& scratch) {
  const auto launch = [&](functors::Scaled* behind, long long first, long long end) {
    const Teams teams = teams_for(end - first, lines.length, lines.inner > 1);
    return launch_teams(stream, end - first, 1, teams, ProductOfOthers<T>{teams, lines, behind, first, end});
  };
  return in_groups<functors::Scaled>(lines, scratch, launch);
}

}  // namespace heddle::cuda_kernels
