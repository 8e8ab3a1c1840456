// Requests that a Client sends.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;

// One request, and what to do with its reply.
struct Call {
  Request request{};              // Client sets Request::number
  Payload payload{};              // the whole value to send; Client sends it in pieces
  std::span<std::byte> into{};    // memory for the whole value of the reply
  std::shared_ptr<void> owner{};  // keeps the memory of `into` alive
  // Used instead of `into`: for a value of unknown length, and for the payload of a failed reply.
  std::vector<std::byte>* collect = nullptr;
  // Called once, on any thread, with no lock held: with the last reply, or with the error. Must not throw.
  std::function<void(const Reply&, std::exception_ptr)> done{};
};

// A call and the number of the server that it is for.
struct ServerCall {
  std::size_t server = 0;
  Call call{};
};

}  // namespace heddle::kv_detail
