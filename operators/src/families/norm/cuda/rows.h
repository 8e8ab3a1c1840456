// Normalisation of rows: a team of threads computes a row, which it reads from DRAM once and from caches afterwards.
#pragma once

#include <cmath>
#include <limits>

#include "cuda/team.h"
#include "families/norm/cuda/kernels.h"
#include "gpu/elements.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;

// What is added to sums is of type T, the sums are f64.
template <class T> HEDDLE_DEVICE inline T inverse_root(double squares, double epsilon) {
  // Squares that overflow leave the scale unknown. A scale of 0 would hide that.
  if (squares == std::numeric_limits<double>::infinity())
    return static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  return static_cast<T>(1 / std::sqrt(squares + epsilon));
}

template <class T> HEDDLE_DEVICE inline T at_or(const void* array, long long at, T otherwise) {
  return array ? static_cast<const T*>(array)[at] : otherwise;
}

// The elements of a row that a thread takes.
struct RowPart {
  long long row;
  bool exists;
  long long begin, first, end, step, first_weight;

  HEDDLE_DEVICE RowPart(const Team& team, const Norm& p)
      : row(team.line()),
        exists(row < p.rows),
        begin(row * p.channels * p.inner),
        first(team.position()),
        end(exists ? p.channels * p.inner : 0),
        step(team.size()),
        first_weight(row % p.groups * p.channels) {}
};

// The weight's index of element i of a row.
HEDDLE_DEVICE inline long long weight_of(const Norm& p, const RowPart& part, long long i) {
  if (p.inner == 1) return part.first_weight + i;
  if (p.channels * p.inner <= 0x7fffffff)  // a division of 64 bits takes several times as long
    return part.first_weight + static_cast<unsigned>(i) / static_cast<unsigned>(p.inner);
  return part.first_weight + i / p.inner;
}

template <class T> struct NormRows {
  Teams teams;
  Norm p;
  NormOutputs out;

  HEDDLE_DEVICE T value(long long at) const { return on_gpu::load<T>(p.x, at, Type{p.dtype}); }
  HEDDLE_DEVICE double sum(const RowPart& part) const {
    double total = 0;
    for (long long i = part.first; i < part.end; i += part.step)
      total += static_cast<double>(value(part.begin + i));
    return total;
  }
  HEDDLE_DEVICE double squares(const RowPart& part, T middle) const {
    double total = 0;
    for (long long i = part.first; i < part.end; i += part.step) {
      const T d = value(part.begin + i) - middle;
      total += static_cast<double>(d * d);
    }
    return total;
  }
  // Writes the elements of a part; one thread of a row also stores the statistics.
  HEDDLE_DEVICE void finish(const RowPart& part, T middle, T factor, bool stores) const {
    if (stores) {
      static_cast<T*>(out.mean)[part.row] = middle;
      static_cast<T*>(out.scale)[part.row] = factor;
    }
    for (long long i = part.first; i < part.end; i += part.step) {
      const long long at = weight_of(p, part, i);
      const T weight = at_or(p.weight, at, T{1}), bias = at_or(p.bias, at, T{0});
      const T d = value(part.begin + i) - middle;
      // Products in the CPU's order.
      const T scaled = p.inner == 1 ? d * factor * weight : d * (factor * weight);
      on_gpu::store(out.y, part.begin + i, Type{p.dtype}, scaled + bias);
    }
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const RowPart part(team, p);
    const double count = static_cast<double>(p.channels * p.inner);
    const double mean = p.centered ? team.all(sum(part), Plus{}) / count : 0;
    const T middle = static_cast<T>(mean);
    const double square = team.all(squares(part, middle), Plus{}) / count;
    finish(part, middle, inverse_root<T>(square, p.epsilon), part.exists && team.position() == 0);
  }
};

// The gradient of x. With z = (x - mean) scale and h = g weight it is scale (h - mean(h) - z mean(h z)).
template <class T> struct NormRowGradients {
  Teams teams;
  Norm p;
  NormGradientArrays arrays;

  HEDDLE_DEVICE T weighted(const RowPart& part, long long i) const {
    const T g = on_gpu::load<T>(arrays.g, part.begin + i, Type{p.dtype});
    return p.weight ? g * static_cast<const T*>(p.weight)[weight_of(p, part, i)] : g;
  }
  HEDDLE_DEVICE T middle(const RowPart& part) const {
    return part.exists ? static_cast<const T*>(arrays.mean)[part.row] : T{0};
  }
  HEDDLE_DEVICE T factor(const RowPart& part) const {
    return part.exists ? static_cast<const T*>(arrays.scale)[part.row] : T{0};
  }
  HEDDLE_DEVICE TwoSums sums(const RowPart& part) const {
    const T mean = middle(part), scale = factor(part);
    TwoSums total{0, 0};
    for (long long i = part.first; i < part.end; i += part.step) {
      const T h = weighted(part, i);
      const T z = (on_gpu::load<T>(p.x, part.begin + i, Type{p.dtype}) - mean) * scale;
      total.a += static_cast<double>(h);
      total.b += static_cast<double>(h * z);
    }
    return total;
  }
  HEDDLE_DEVICE void finish(const RowPart& part, const TwoSums& total) const {
    const T mean = middle(part), scale = factor(part);
    const double count = static_cast<double>(p.channels * p.inner);
    const T mean_h = p.centered ? static_cast<T>(total.a / count) : T{0};
    const T mean_hz = static_cast<T>(total.b / count);
    for (long long i = part.first; i < part.end; i += part.step) {
      const T d = on_gpu::load<T>(p.x, part.begin + i, Type{p.dtype}) - mean;
      on_gpu::store(arrays.x, part.begin + i, Type{p.dtype},
                    scale * (weighted(part, i) - mean_h - d * scale * mean_hz));
    }
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const RowPart part(team, p);
    finish(part, team.all(sums(part), PlusTwo{}));
  }
};

}  // namespace heddle::cuda_kernels
