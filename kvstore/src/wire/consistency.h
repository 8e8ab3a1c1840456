// The consistency of a job: how far its workers may be apart.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::kv_detail {

// sync: rounds, in which every worker pushes once (Valiant, "A bridging model for parallel computation", CACM
// 1990). async: each push is applied at once (Dean et al., "Large scale distributed deep networks", NIPS
// 2012). ssp: as async, but a pull waits while another worker is more than `slack` pushes behind (Ho et al.,
// "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013).
struct Consistency {
  enum class Mode : std::uint8_t { sync, async, ssp };
  Mode mode = Mode::sync;
  std::uint64_t slack = 0;
};

// Parses "sync", "async" or "ssp:3". Throws InvalidArgument for other texts.
Consistency parse_consistency(const std::string& text);

}  // namespace heddle::kv_detail
