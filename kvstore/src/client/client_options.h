// What a worker's connections to its servers are told.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace heddle::kv_detail {

struct ClientOptions {
  std::vector<std::string> servers;  // HOST:PORT of each; with a scheduler it says where they are
  std::string scheduler{};           // HOST:PORT; empty: none
  std::string job = "default";
  std::string consistency = "sync";
  int rank = 0, workers = 1;  // with a scheduler -1 is any rank, and 0 as many workers as it says
  TransportOptions transport{};
  // A server that has been unreachable for so long is given up: all requests to it fail.
  std::chrono::milliseconds timeout{60'000};
};

}  // namespace heddle::kv_detail
