// The answers that an op of a store waits for.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include <heddle/engine.h>
#include <heddle/store_error.h>

namespace heddle {

// Completes an op when all servers have answered. On the client's thread only, once the calls are made.
struct Answers {
  Completion done;
  std::size_t left;
  std::exception_ptr error{};
  void one(std::exception_ptr failed) {
    if (failed && !error) error = std::move(failed);
    if (--left > 0) return;
    error ? done.fail(std::move(error)) : done.done();
  }
};

inline std::exception_ptr not_initialised(const std::string& key) {
  return std::make_exception_ptr(StoreError("key " + key + ": no server has it, since its init failed"));
}

}  // namespace heddle
