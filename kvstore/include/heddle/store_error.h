// The error of a store that servers keep.
#pragma once

#include <heddle/error.h>

namespace heddle {

// A server is lost or has refused a request. It names the server, since when and what to do. It is the error of the ops
// that needed the server, and so of the arrays that they mutate.
class StoreError : public Error {
 public:
  using Error::Error;
};

}  // namespace heddle
