// The error of key-value stores on server processes.
#pragma once

#include <heddle/error.h>

namespace heddle {

// A server is lost or has refused a request. The message names the server, since when it is lost and what to
// do. Ops that needed the server fail with this error, and so do the arrays that they mutate.
class StoreError : public Error {
 public:
  using Error::Error;
};

}  // namespace heddle
