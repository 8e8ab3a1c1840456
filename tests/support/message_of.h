// What an error says.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle::test {

// what() of the Expected that call() throws, without the place of the call; "no error" if it throws nothing. Any other exception passes.
template <class Expected = Error> std::string message_of(auto&& call) {
  try {
    call();
  } catch (const Expected& error) {
    if (const auto* argument = dynamic_cast<const InvalidArgument*>(&error)) return argument->message();
    return without_place(error.what());
  }
  return "no error";
}

}  // namespace heddle::test
