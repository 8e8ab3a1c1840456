// The message of an error.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle::test {

// Message of the Expected that call() throws, without the call site; "no error" if it throws nothing. Other
// exceptions propagate.
template <class Expected = Error> std::string message_of(auto&& call) {
  try {
    call();
  } catch (const Expected& error) {
    if (const auto* argument = dynamic_cast<const InvalidArgument*>(&error)) return argument->message();
    return without_call_site(error.what());
  }
  return "no error";
}

}  // namespace heddle::test
