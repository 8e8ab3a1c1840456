#include "trace/trace_arrows.h"

#include <utility>

namespace heddle::trace {

Arrows::Op& Arrows::find(std::uint64_t number) {
  const auto [at, is_new] = by_number_.try_emplace(number);
  if (is_new) {
    ops_.push_front({number, std::nullopt, {}});
    at->second = ops_.begin();
    if (ops_.size() > kMost) {
      by_number_.erase(ops_.back().number);
      ops_.pop_back();
    }
  } else {
    ops_.splice(ops_.begin(), ops_, at->second);
  }
  return ops_.front();
}

std::vector<ArrowEnd> Arrows::add_start(std::uint64_t op, ArrowEnd start) {
  Op& from = find(op);
  from.start = start;
  return std::exchange(from.ends, {});
}

std::optional<ArrowEnd> Arrows::add_end(std::uint64_t op, ArrowEnd end) {
  Op& from = find(op);
  if (!from.start && from.ends.size() < kMost) from.ends.push_back(end);
  return from.start;
}

}  // namespace heddle::trace
