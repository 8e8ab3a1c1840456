// The texts of CommMismatch, the same for all back ends and for every rank that detects the mismatch.
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

// The text for two ranks that made different calls.
std::string different_calls(const CallOf& one, const CallOf& other);

// The text for two ranks that made the same call, where the receiver expects another number of bytes than the
// sender sends, as in an all_to_all.
std::string different_lengths(const CallOf& sender, std::size_t sent, const CallOf& receiver,
                              std::size_t wanted);

// "rank 0 waits for rank 1 in CALL": one step of a deadlock cycle. Steps are joined by kWaitSeparator.
std::string wait_of(const CallOf& waiting, int awaited);
inline constexpr const char* kWaitSeparator = "; ";

// The text of a deadlock cycle, whose steps are given in order. The text begins with the lowest rank.
std::string cycle_of_waits(const std::string& steps);

}  // namespace heddle::comm_detail
