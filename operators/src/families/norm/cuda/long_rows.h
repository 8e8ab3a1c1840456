// Normalisation of few long rows (cuda/long_lines.h).
#pragma once

#include "cuda/long_lines.h"
#include "families/norm/cuda/rows.h"

namespace heddle::cuda_kernels {

HEDDLE_DEVICE inline RowPart part_of_row(on_gpu::Thread& thread, const Team& team, const Norm& p,
                                         const Parts& parts) {
  RowPart part(team, p);
  const long long begin = thread.block_index().y * parts.size, end = begin + parts.size;
  part.first += begin;
  part.end = end < part.end ? end : part.end;
  return part;
}

// Stores sums of values, then of squares.
template <class T> struct LongNormRows {
  Parts parts;
  Stage stage;
  NormRows<T> all;
  double *values, *squares;  // rows x parts

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, kLongTeams);
    const RowPart part = part_of_row(thread, team, all.p, parts);
    const long long of_row = part.row * parts.count, own = of_row + thread.block_index().y;
    const double count = static_cast<double>(all.p.channels * all.p.inner);
    if (stage == Stage::first) {
      const double sum = team.all(all.sum(part), Plus{});
      if (team.position() == 0) values[own] = sum;
      return;
    }
    const bool centered = all.p.centered;
    const double mean = centered ? join_parts(team, values + of_row, parts.count, 0, Plus{}) / count : 0;
    const T middle = static_cast<T>(mean);
    if (stage == Stage::second) {
      const double sum = team.all(all.squares(part, middle), Plus{});
      if (team.position() == 0) squares[own] = sum;
      return;
    }
    const double square = join_parts(team, squares + of_row, parts.count, 0, Plus{}) / count;
    all.finish(part, middle, inverse_root<T>(square, all.p.epsilon), part.first == 0);
  }
};

// Stores the two sums of each part.
template <class T> struct LongNormRowGradients {
  Parts parts;
  Stage stage;
  NormRowGradients<T> all;
  double *of_h, *of_hz;  // rows x parts

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, kLongTeams);
    const RowPart part = part_of_row(thread, team, all.p, parts);
    const long long of_row = part.row * parts.count, own = of_row + thread.block_index().y;
    if (stage == Stage::second) {
      const TwoSums sums = team.all(all.sums(part), PlusTwo{});
      if (team.position() == 0) of_h[own] = sums.a, of_hz[own] = sums.b;
      return;
    }
    const double a = join_parts(team, of_h + of_row, parts.count, 0, Plus{}),
                 b = join_parts(team, of_hz + of_row, parts.count, 0, Plus{});
    all.finish(part, {a, b});
  }
};

}  // namespace heddle::cuda_kernels
