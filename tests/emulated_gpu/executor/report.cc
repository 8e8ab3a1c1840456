// Texts for error messages.
#include <algorithm>
#include <map>

#include "executor/block.h"

namespace heddle::emulated_gpu {

std::string text_of(const uint3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

std::string text_of(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string ranges_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "thread " : "threads ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// Threads are numbered as Thread::rank() does.
std::string where_threads_wait(const Block& block) {
  std::map<std::string, std::vector<int>> groups;
  for (const Fiber* fiber : block.fibers) {
    std::string doing;
    switch (fiber->state) {
      case State::ready:
        doing = "have not come to a barrier";
        break;
      case State::at_barrier:
        doing = "wait at the barrier at " + text_of(fiber->where);
        break;
      case State::at_warp_operation:
        doing = "wait for lanes of their warp at " + text_of(fiber->where);
        break;
      case State::ended:
        doing = "have ended";
        break;
    }
    groups[doing].push_back(fiber->rank());
  }
  std::string text;
  for (const auto& [doing, ranks] : groups) {
    if (!text.empty()) text += "; ";
    text += ranges_of(ranks) + " " + doing;
  }
  return text;
}

}  // namespace heddle::emulated_gpu
