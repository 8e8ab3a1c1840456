// What a worker's connections to its servers are told.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <heddle/etcd.h>

#include "client/placement.h"
#include "transport/transport.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

struct ClientOptions {
  std::vector<std::string> servers{};  // HOST:PORT of each; with a scheduler it says where they are
  std::string scheduler{};             // HOST:PORT; empty: none
  EtcdOptions etcd{};                  // or where to look for the scheduler that leads now
  std::string job = "default";
  std::string consistency = "sync";
  PlacementRule placement{};
  int rank = 0, workers = 1;  // with a scheduler -1 is any rank, and 0 as many workers as it says
  TransportOptions transport{};
  Versions versions{};  // of the protocol, that it speaks
  // A server that has been unreachable for so long is given up: all requests to it fail.
  std::chrono::milliseconds timeout{60'000};

  // A connection on which nothing has come for so long, though the server is asked every second, is made anew: it may be
  // half-open. Longer than the scheduler takes to find that a backup is gone, for which answers wait.
  std::chrono::milliseconds most_silent() const {
    using std::chrono::milliseconds;
    return std::min(milliseconds(4000), timeout / 4 + std::min(milliseconds(1000), timeout / 4));
  }
  bool is_scheduled() const { return !scheduler.empty() || !etcd.urls.empty(); }
};

}  // namespace heddle::kv_detail
