// CallTag: a text on which the ranks of a call have to agree, like its dtype and count.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

class Communicator;

// A scope in which the thread's calls on `ranks` have the tag `text`. Ranks with different tags get a
// CommMismatch that shows both tags. Tags do not make messages longer. A tag of more than 48 bytes is shown
// as its beginning and a hash. Scopes of a thread may nest; for each communicator its innermost scope counts.
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
