// Versions of the protocol of workers, servers and the scheduler. A process understands version kProtocol and
// all before it, down to kOldestProtocol. It speaks the newest version that the other side understands, too.
//
// 1: the first. 2: a server that says hello to a backup proves that it is the primary of the scheduler's
// view. 3: views have learners. 4: a worker that connects again says what it has had answers to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <heddle/error.h>

namespace heddle::kv_detail {

constexpr std::size_t kMaxJobName = 256, kMaxName = 256;  // most bytes of a job's name, and of other names

constexpr std::uint16_t kProtocol = 4, kOldestProtocol = 1;
constexpr std::uint16_t kProven = 2;    // from this version on a primary authenticates to its backup
constexpr std::uint16_t kLearners = 3;  // from this version on servers know learners, see ShardView
constexpr std::uint16_t kResumes = 4;   // from this version on servers know Kind::resume

struct Versions {
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  bool has(std::uint16_t version) const { return oldest <= version && version <= newest; }
};

// The versions of a process whose options name the newest one to speak; 0: no limit. Throws InvalidArgument.
inline Versions versions_up_to(int newest) {
  if (newest != 0 && (newest < kOldestProtocol || newest > kProtocol))
    throw InvalidArgument("protocol is " + std::to_string(newest) + ", want " +
                          std::to_string(kOldestProtocol) + " to " + std::to_string(kProtocol) +
                          ", or 0 for the newest");
  return {kOldestProtocol, newest == 0 ? kProtocol : static_cast<std::uint16_t>(newest)};
}

// The newest version that both sides understand; 0: none.
inline std::uint16_t common_version(Versions one, Versions other) {
  const std::uint16_t newest = std::min(one.newest, other.newest);
  return newest >= std::max(one.oldest, other.oldest) ? newest : std::uint16_t{0};
}

// The error if two processes have no common version.
inline std::string no_common_version(const std::string& who, Versions theirs, const std::string& me,
                                     Versions mine) {
  return who + " speaks versions " + std::to_string(theirs.oldest) + " to " + std::to_string(theirs.newest) +
         " of the protocol, " + me + " " + std::to_string(mine.oldest) + " to " + std::to_string(mine.newest);
}

}  // namespace heddle::kv_detail
