#include "transport/send_queue.h"

#include <string>
#include <utility>

#include <heddle/error.h>

namespace heddle::net_detail {
namespace {

constexpr std::size_t kMostPopped = 1024;  // popped messages that stay in the vector, at most

}  // namespace

void SendQueue::push(Message message) {
  bytes_ += bytes_of(message);
  if (by_priority_.empty() && (in_order_.empty() || message.priority <= in_order_.back().priority)) {
    in_order_.push_back(std::move(message));
  } else {
    by_priority_[message.priority].push_back(std::move(message));
  }
}

// True if the next message is in in_order_. Of equal priorities those in by_priority_ are newer.
bool SendQueue::is_first_in_order() const {
  if (in_order_.empty() || by_priority_.empty()) return by_priority_.empty();
  return in_order_[next_].priority >= by_priority_.begin()->first;
}

const Message& SendQueue::front() const {
  return is_first_in_order() ? in_order_[next_] : by_priority_.begin()->second.front();
}

Message SendQueue::pop() {
  if (is_first_in_order()) {
    Message message = std::move(in_order_[next_++]);
    if (next_ == in_order_.size() || next_ == kMostPopped)
      in_order_.erase(in_order_.begin(),
                      in_order_.begin() + static_cast<std::ptrdiff_t>(std::exchange(next_, 0)));
    bytes_ -= bytes_of(message);
    return message;
  }
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

}  // namespace heddle::net_detail
