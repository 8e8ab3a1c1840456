// CallTag: a text on which ranks have to agree, as they have to agree on a call's dtype and count.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

class Communicator;

// While it lives, calls that its thread makes on `ranks` carry `text`. Ranks whose texts differ get CommMismatch, which
// shows both texts; nothing more is sent for it. Of a text over 48 bytes, errors show the beginning and a hash of all.
// Tags of one thread end in the reverse order of their making; the last one made on a communicator counts.
class CallTag {
 public:
  CallTag(const Communicator& ranks, std::string_view text);
  ~CallTag();
  CallTag(const CallTag&) = delete;
  CallTag& operator=(const CallTag&) = delete;

 private:
  friend struct CallTags;
  const void* ranks_;
  std::string text_;
  const CallTag* outer_;
};

}  // namespace heddle
