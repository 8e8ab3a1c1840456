#include "host/host_cores.h"

#include <bit>
#include <sched.h>

namespace heddle::comm_detail {

void record_cores(RankBlock& rank_block) {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  for (std::size_t core = 0; core < kCoreWords * 64; ++core) {
    if (known && !CPU_ISSET(core, &set)) continue;
    rank_block.cores[core / 64].fetch_or(std::uint64_t{1} << core % 64, std::memory_order_relaxed);
  }
}

std::optional<int> cores_of_ranks(const Segment& segment) {
  int count = 0;
  for (std::size_t word = 0; word < kCoreWords; ++word) {
    std::uint64_t cores = 0;
    for (int rank = 0; rank < segment.size(); ++rank) {
      RankBlock& rank_block = segment.rank_block(rank);
      if (rank_block.presence.load(std::memory_order_acquire) == Presence::absent) return std::nullopt;
      cores |= rank_block.cores[word].load(std::memory_order_relaxed);
    }
    count += std::popcount(cores);
  }
  return count;
}

}  // namespace heddle::comm_detail
