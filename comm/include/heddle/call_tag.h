// CallTag: a text on which the ranks of a call have to agree, like its dtype and count.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

class Communicator;

// A scope in which the thread's calls on `ranks` have the tag `text`. Ranks with different tags get a CommMismatch that
// shows both. Messages do not become longer. Texts over 48 bytes are shown as their beginning and a hash. Scopes of a
// thread may nest; the innermost one of a communicator counts.
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
