// Sums over the channels of a normalisation, and the maps that need them. A long channel is summed in parts, whose sums are
// added by the threads of a second launch.
#pragma once

#include "families/norm/cuda/rows.h"

namespace heddle::cuda_kernels {

// What is summed for each weight, over the blocks of rows and the inner elements.
enum class Terms { values, squares, gradients };  // x; (x - mean)^2; g, and g (x - mean) scale

template <class T> struct ChannelSums {
  Teams teams;
  Parts parts;
  Norm p;
  Terms terms;
  const void *g, *mean, *scale;
  TwoSums* sums;  // parts x weights

  HEDDLE_DEVICE void add(TwoSums& sum, long long at, long long statistic) const {
    const T x = on_gpu::load<T>(p.x, at, Type{p.dtype});
    if (terms == Terms::values) {
      sum.a += static_cast<double>(x);
      return;
    }
    const T d = x - static_cast<const T*>(mean)[statistic];
    if (terms == Terms::squares) {
      sum.a += static_cast<double>(d * d);
      return;
    }
    const T of_g = on_gpu::load<T>(g, at, Type{p.dtype});
    sum.a += static_cast<double>(of_g);
    sum.b += static_cast<double>(of_g * (d * static_cast<const T*>(scale)[statistic]));
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long weight = team.line(), weights = p.groups * p.channels;
    const long long part = thread.block_index().y, length = p.rows / p.groups * p.inner;
    const long long end = (part + 1) * parts.size < length ? (part + 1) * parts.size : length;
    TwoSums sum{0, 0};
    if (weight < weights) {
      const bool small = length <= 0x7fffffff;  // a division of 64 bits takes several times as long
      for (long long i = part * parts.size + team.position(); i < end; i += team.size()) {
        const long long block = p.inner == 1 ? i
                                : small      ? static_cast<unsigned>(i) / static_cast<unsigned>(p.inner)
                                             : i / p.inner;
        const long long at = (block * weights + weight) * p.inner + (i - block * p.inner);
        add(sum, at, p.of_channels ? weight : block * p.groups + weight / p.channels);
      }
    }
    sum = team.all(sum, PlusTwo{});
    if (weight < weights && team.position() == 0) sums[part * weights + weight] = sum;
  }
};

// Adds the sums of the parts and stores what they are for.
template <class T> struct ChannelEnds {
  Teams teams;
  Norm p;
  Terms terms;
  const TwoSums* sums;
  long long parts;
  void *mean, *scale, *variance;  // of values and squares
  void *weight_grad, *bias_grad;  // of gradients; null: not wanted
  T* means;                       // of gradients: mean(g), then mean(g z); null: not wanted

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long weight = team.line(), weights = p.groups * p.channels;
    TwoSums sum{0, 0};
    if (weight < weights) {
      for (long long part = team.position(); part < parts; part += team.size())
        sum = PlusTwo{}(sum, sums[part * weights + weight]);
    }
    sum = team.all(sum, PlusTwo{});
    if (weight >= weights || team.position() != 0) return;
    const double count = static_cast<double>(p.rows * p.inner);
    if (terms == Terms::values) {
      static_cast<T*>(mean)[weight] = static_cast<T>(sum.a / count);
    } else if (terms == Terms::squares) {
      static_cast<T*>(scale)[weight] = inverse_root<T>(sum.a / count, p.epsilon);
      if (variance) static_cast<T*>(variance)[weight] = static_cast<T>(sum.a / count);
    } else {
      if (bias_grad) static_cast<T*>(bias_grad)[weight] = static_cast<T>(sum.a);
      if (weight_grad) static_cast<T*>(weight_grad)[weight] = static_cast<T>(sum.b);
      if (!means) return;
      means[weight] = static_cast<T>(sum.a / count);
      means[weights + weight] = static_cast<T>(sum.b / count);
    }
  }
};

// y of batch_norm, or, if g is not null, the gradient of x.
template <class T> struct ChannelMap {
  Norm p;
  const void *g, *mean, *scale;
  const T* means;  // of ChannelEnds
  void* to;

  HEDDLE_DEVICE long long channel_of(long long i, bool small) const {
    if (!small) return i / p.inner % p.channels;
    const unsigned line =
        p.inner == 1 ? static_cast<unsigned>(i) : static_cast<unsigned>(i) / static_cast<unsigned>(p.inner);
    return line % static_cast<unsigned>(p.channels);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.rows * p.channels * p.inner;
    const bool small = count <= 0x7fffffff;  // a division of 64 bits takes several times as long
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long c = channel_of(i, small);
      const T d = on_gpu::load<T>(p.x, i, Type{p.dtype}) - static_cast<const T*>(mean)[c];
      const T factor = static_cast<const T*>(scale)[c], by = factor * at_or(p.weight, c, T{1});
      T result;
      if (!g) {
        result = d * by + at_or(p.bias, c, T{0});
      } else {
        const T mean_gz = means[p.channels + c];
        // Products in the CPU's order.
        const T along = p.inner == 1 ? d * factor * mean_gz : d * (mean_gz * factor);
        result = by * (on_gpu::load<T>(g, i, Type{p.dtype}) - means[c] - along);
      }
      on_gpu::store(to, i, Type{p.dtype}, result);
    }
  }
};

}  // namespace heddle::cuda_kernels
