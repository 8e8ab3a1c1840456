// Few long lines, each of which is cut into parts, so that all of a GPU computes. A kernel is launched once for each stage: first what
// the parts are joined to is stored, at last elements are computed from it. Parts depend on shapes alone, and with them the order of
// sums.
#pragma once

#include "cuda/team.h"

namespace heddle::cuda_kernels {

inline bool is_long(long long lines, long long length) {
  constexpr long long kFew = 264,
                      kLong = 16384;  // with fewer lines a GPU has multiprocessors without a block
  return lines < kFew && length > kLong;
}

constexpr Teams kLongTeams{1, true};  // a block takes a part of a line
enum class Stage { first, second, map };

// What the values of the parts of a line are joined to, for all threads of a block.
template <class Join>
HEDDLE_DEVICE double join_parts(Team& team, const double* values, long long count, double start,
                                const Join& join) {
  double own = start;
  for (long long part = team.position(); part < count; part += team.size()) own = join(own, values[part]);
  return team.all(own, join);
}

template <class K> const char* launch_stages(void* stream, long long lines, K kernel, Stage from) {
  for (int stage = static_cast<int>(from); stage <= static_cast<int>(Stage::map); ++stage) {
    kernel.stage = Stage(stage);
    if (const char* problem = launch_teams(stream, lines, kernel.parts.count, kLongTeams, kernel))
      return problem;
  }
  return nullptr;
}

}  // namespace heddle::cuda_kernels
