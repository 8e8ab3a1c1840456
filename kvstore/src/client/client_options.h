// Options of a Client.
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

using namespace net_detail;

struct ClientOptions {
  std::vector<std::string> servers{};  // HOST:PORT of each server; with a scheduler empty
  std::string scheduler{};             // HOST:PORT of the scheduler; empty: none
  EtcdOptions etcd{};                  // used instead of `scheduler`: etcd names the leading scheduler
  std::string job = "default";
  std::string consistency = "sync";
  PlacementRule placement{};
  int rank = 0, workers = 1;  // rank -1, workers 0: chosen by the scheduler, if there is one
  TransportOptions transport{};
  Versions versions{};  // protocol versions that this worker speaks
  // After a server was unreachable for this time, all requests to it fail.
  std::chrono::milliseconds timeout{60'000};

  // A connection that was silent for this time, although the server is pinged every second, may be half-open
  // and is made anew. The time is longer than the scheduler takes to notice the loss of a backup, for which a
  // primary's answers wait.
  std::chrono::milliseconds most_silent() const {
    using std::chrono::milliseconds;
    return std::min(milliseconds(4000), timeout / 4 + std::min(milliseconds(1000), timeout / 4));
  }
  bool is_scheduled() const { return !scheduler.empty() || !etcd.urls.empty(); }
};

}  // namespace heddle::kv_detail
