#include "transport/send_queue.h"

#include <string>
#include <utility>

#include <heddle/error.h>

namespace heddle::kv_detail {

void SendQueue::push(Message message) {
  bytes_ += bytes_of(message);
  by_priority_[message.priority].push_back(std::move(message));
}

Message SendQueue::pop() {
  const auto first = by_priority_.begin();
  Message message = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) by_priority_.erase(first);
  bytes_ -= bytes_of(message);
  return message;
}

void check_size(const Message& message, const TransportOptions& options) {
  const auto check = [](const char* what, std::size_t bytes, std::size_t most) {
    if (bytes <= most) return;
    throw InvalidArgument("send: got a " + std::string(what) + " of " + std::to_string(bytes) +
                          " bytes, want " + std::to_string(most) + " at most");
  };
  check("head", message.head.size(), options.max_head);
  check("payload", message.payload.bytes.size(), options.max_payload);
}

}  // namespace heddle::kv_detail
