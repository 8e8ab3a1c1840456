#include "core/mismatch.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace heddle::comm_detail {
namespace {

constexpr std::string_view kStep = "rank ";

std::string name(int rank) { return std::string(kStep) + std::to_string(rank); }

std::string called(const CallOf& one) { return name(one.rank) + " called " + one.call.to_string(); }

std::string both(const CallOf& one, std::string first, const CallOf& other, std::string second) {
  if (other.rank < one.rank) std::swap(first, second);
  return "the ranks do not call the same: " + first + "; " + second;
}

// The text for `bytes`: in elements if they are whole. The calls of sender and receiver have the same dtype,
// since only their lengths differ.
std::string elements(const CallRecord& call, std::size_t bytes) {
  const std::size_t element = size_of(call.dtype);
  return bytes % element ? std::to_string(bytes) + " bytes" : std::to_string(bytes / element) + " elements";
}

// The number at the front of a step: 12 for "rank 12 waits ...".
int rank_in(std::string_view step) {
  int rank = 0;
  step.remove_prefix(std::min(step.size(), kStep.size()));
  std::from_chars(step.data(), step.data() + step.size(), rank);
  return rank;
}

}  // namespace

std::string different_calls(const CallOf& one, const CallOf& other) {
  return both(one, called(one), other, called(other));
}

std::string different_lengths(const CallOf& sender, std::size_t sent, const CallOf& receiver,
                              std::size_t wanted) {
  return both(
      sender, called(sender) + " and sends " + name(receiver.rank) + " " + elements(sender.call, sent),
      receiver,
      called(receiver) + " and waits for " + elements(receiver.call, wanted) + " of " + name(sender.rank));
}

std::string wait_of(const CallOf& waiting, int awaited) {
  return name(waiting.rank) + " waits for " + name(awaited) + " in " + waiting.call.to_string();
}

std::string cycle_of_waits(const std::string& steps) {
  const std::string between = std::string(kWaitSeparator) + std::string(kStep);
  std::size_t first = 0;
  for (std::size_t at = 0; (at = steps.find(between, at)) != std::string::npos;) {
    at += std::char_traits<char>::length(kWaitSeparator);
    if (rank_in(std::string_view(steps).substr(at)) < rank_in(std::string_view(steps).substr(first)))
      first = at;
  }
  std::string rotated = steps.substr(first);
  if (first > 0)
    rotated += kWaitSeparator + steps.substr(0, first - std::char_traits<char>::length(kWaitSeparator));
  return "ranks wait for each other in a cycle: " + rotated;
}

}  // namespace heddle::comm_detail
