// The messages that wait for a connection, by priority.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "transport/transport.h"

namespace heddle::net_detail {

// Pops the message of the largest priority, of several the oldest one.
class SendQueue {
 public:
  bool empty() const { return in_order_.empty() && by_priority_.empty(); }
  std::size_t bytes() const { return bytes_; }  // size of all heads and payloads
  void push(Message message);
  const Message& front() const;
  Message pop();

 private:
  bool is_first_in_order() const;

  // The oldest messages, as long as priorities never rise: the usual case, without an allocation a message.
  std::vector<Message> in_order_;
  std::size_t next_ = 0;  // index in in_order_ of the first message that has not been popped
  std::map<int, std::deque<Message>, std::greater<>> by_priority_;  // none of the deques is empty
  std::size_t bytes_ = 0;
};

inline std::size_t bytes_of(const Message& message) {
  return message.head.size() + message.payload.bytes.size();
}

// Throws InvalidArgument for a message that is longer than the options allow.
void check_size(const Message& message, const TransportOptions& options);

}  // namespace heddle::net_detail
