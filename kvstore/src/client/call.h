// What a client is told: where its servers are, and one request with what becomes of the reply.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "wire/messages.h"

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

// One request, and what becomes of the reply.
struct Call {
  Request request{};              // the client sets its number
  Payload payload{};              // the whole value: the client sends it in pieces
  std::span<std::byte> into{};    // where the value of the reply goes, all of it
  std::shared_ptr<void> owner{};  // keeps `into`
  std::vector<std::byte>* collect =
      nullptr;  // instead of `into`, for a value of unknown length, and what a failure has
  // Called once, on any thread, with no lock held: with the last reply, or with the error. Must not throw.
  std::function<void(const Reply&, std::exception_ptr)> done{};
};

// A call and the number of the server that it is for.
struct ServerCall {
  std::size_t server = 0;
  Call call{};
};

}  // namespace heddle::kv_detail
