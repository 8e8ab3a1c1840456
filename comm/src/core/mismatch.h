// What a CommMismatch says: one wording for all back ends, whichever rank finds it and however.
#pragma once

#include <cstddef>
#include <string>

#include "core/collective.h"

namespace heddle::comm_detail {

// A call, and the rank that made it.
struct CallOf {
  int rank;
  const CallRecord& call;
};

// The two called different things.
std::string different_calls(const CallOf& one, const CallOf& other);

// The two called the same, but one sends the other more or fewer bytes than that waits for, as in an all_to_all.
std::string different_lengths(const CallOf& sender, std::size_t sent, const CallOf& receiver,
                              std::size_t wanted);

// One step of a circle of ranks, each of which waits for the next. Steps are joined by kNextWait.
std::string wait_of(const CallOf& who, int whom);
inline constexpr const char* kNextWait = "; ";

// The circle, which the ranks' steps make up in its order; it is said beginning with the lowest rank.
std::string circle_of_waits(const std::string& steps);

}  // namespace heddle::comm_detail
