// Logs refused connections: how many there were, and the last one. Logs at most once a minute, since anybody
// may try to connect any number of times.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <heddle/server.h>

#include "transport/transport.h"

namespace heddle::kv_detail {

using namespace net_detail;

class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Returns an event to log if connections were refused and it is time to log that. To be called now and
  // then.
  std::optional<ServerEvent> look(const Transport& transport, Time now) {
    if (now < next_) return std::nullopt;
    const RefusedConnections& refused_connections = transport.refused_connections();
    if (refused_connections.refused == told_) return std::nullopt;
    const std::uint64_t more =
        refused_connections.refused - std::exchange(told_, refused_connections.refused);
    next_ = now + std::chrono::minutes(1);
    return ServerEvent{ServerEvent::Level::warning,
                       "connections_refused",
                       {{"count", std::to_string(more)}, {"last", refused_connections.last}}};
  }

 private:
  std::uint64_t told_ = 0;
  Time next_{};
};

}  // namespace heddle::kv_detail
