// Softmax of few long lines (cuda/long_lines.h): of each part the maximum, then the sum is stored.
#pragma once

#include <cmath>
#include <limits>

#include "cuda/arithmetic.h"
#include "cuda/long_lines.h"
#include "cuda/scratch.h"
#include "families/softmax/cuda/kernels.h"

namespace heddle::cuda_kernels {

// Elements that are computed with as T: f32 also stands for halves, which are converted where they are read and written.
template <class T> struct From {
  const void* data;
  on_gpu::Type type;
  HEDDLE_DEVICE T operator[](long long at) const { return on_gpu::load<T>(data, at, type); }
};
template <class T> struct To {
  void* data;
  on_gpu::Type type;
  HEDDLE_DEVICE void put(long long at, T value) const { put_sum<T>(data, at, type, value); }
};

struct Larger {
  template <class T> HEDDLE_DEVICE T operator()(T a, T b) const { return b > a || b != b ? b : a; }
};

inline bool is_long(const Lines& lines) {
  constexpr long long kNear = 8;  // elements of a line so near share what is read at once
  return is_long(lines.outer * lines.inner, lines.length) && lines.inner <= kNear;
}

// The elements of a part of a line that a thread takes. A block takes a part.
struct LinePart {
  long long line, part, first, end, step, begin, inner;

  HEDDLE_DEVICE LinePart(on_gpu::Thread& thread, const Team& team, const Lines& lines, const Parts& parts)
      : line(team.line()),
        part(thread.block_index().y),
        first(part * parts.size + team.position()),
        end((part + 1) * parts.size < lines.length ? (part + 1) * parts.size : lines.length),
        step(team.size()),
        begin(line / lines.inner * lines.length * lines.inner + line % lines.inner),
        inner(lines.inner) {}
  HEDDLE_DEVICE long long at(long long i) const { return begin + i * inner; }
};

// End: void operator()(Thread&, line, shift, sum), which one thread of each line calls last.
template <class T, class End> struct LongSoftmax {
  Lines lines;
  Parts parts;
  Stage stage;
  From<T> x;
  To<T> y;
  double *largest, *sums;  // lines x parts
  End end;

  HEDDLE_DEVICE void map(const LinePart& part, T shift, T sum) const {
    const T log_sum = lines.log ? std::log(sum) : T{0}, share = T{1} / sum;
    for (long long i = part.first; i < part.end; i += part.step) {
      const T shifted = x[part.at(i)] - shift;
      y.put(part.at(i), lines.log ? shifted - log_sum : std::exp(shifted) * share);
    }
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, kLongTeams);
    const LinePart part(thread, team, lines, parts);
    const long long of_line = part.line * parts.count;
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    if (stage == Stage::first) {
      double most = kLeast;
      for (long long i = part.first; i < part.end; i += part.step)
        most = Larger{}(most, static_cast<double>(x[part.at(i)]));
      most = team.all(most, Larger{});
      if (team.position() == 0) largest[of_line + part.part] = most;
      return;
    }
    const T shift = static_cast<T>(join_parts(team, largest + of_line, parts.count, kLeast, Larger{}));
    if (stage == Stage::second) {
      double total = 0;
      for (long long i = part.first; i < part.end; i += part.step)
        total += static_cast<double>(std::exp(x[part.at(i)] - shift));
      total = team.all(total, Plus{});
      if (team.position() == 0) sums[of_line + part.part] = total;
      return;
    }
    const T sum = static_cast<T>(join_parts(team, sums + of_line, parts.count, 0, Plus{}));
    map(part, shift, sum);
    if (part.part == 0 && team.position() == 0) end(thread, part.line, shift, sum);
  }
};

template <class T> struct LongSoftmaxBackward {
  Lines lines;
  Parts parts;
  Stage stage;
  const T *g, *y;
  To<T> x_grad;
  double* sums;  // lines x parts

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, kLongTeams);
    const LinePart part(thread, team, lines, parts);
    double* const of_line = sums + part.line * parts.count;
    if (stage == Stage::second) {
      double total = 0;
      for (long long i = part.first; i < part.end; i += part.step) {
        const double term = static_cast<double>(g[part.at(i)]);
        total += lines.log ? term : term * static_cast<double>(y[part.at(i)]);
      }
      total = team.all(total, Plus{});
      if (team.position() == 0) of_line[part.part] = total;
      return;
    }
    const T sum = static_cast<T>(join_parts(team, of_line, parts.count, 0, Plus{}));
    for (long long i = part.first; i < part.end; i += part.step) {
      const long long at = part.at(i);
      x_grad.put(at, lines.log ? g[at] - std::exp(y[at]) * sum : y[at] * (g[at] - sum));
    }
  }
};

template <class T, class End>
const char* long_softmax(void* stream, const Lines& lines, const From<T>& x, const To<T>& y, const End& end,
                         ScratchBlocks& scratch) {
  const long long count = lines.outer * lines.inner;
  const Parts parts = parts_of(count, lines.length, kLongTeams);
  double* const largest = scratch.take_array<double>(2 * count * parts.count);
  const LongSoftmax<T, End> kernel{lines, parts, {}, x, y, largest, largest + count * parts.count, end};
  return launch_stages(stream, count, kernel, Stage::first);
}

template <class T>
const char* long_softmax_backward(void* stream, const Lines& lines, const T* g, const T* y,
                                  const To<T>& x_grad, ScratchBlocks& scratch) {
  const long long count = lines.outer * lines.inner;
  const Parts parts = parts_of(count, lines.length, kLongTeams);
  const LongSoftmaxBackward<T> kernel{
      lines, parts, {}, g, y, x_grad, scratch.take_array<double>(count * parts.count)};
  return launch_stages(stream, count, kernel, Stage::second);
}

}  // namespace heddle::cuda_kernels
