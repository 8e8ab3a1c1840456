// Counts the servers' answers that an op waits for.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <utility>

#include <heddle/engine.h>

namespace heddle {

// Completes an op when all servers have answered.
struct Answers {
  Completion done;
  std::atomic<std::size_t> left;
  std::atomic<bool> failed{false};  // whether an answer was an error: only the first error sets `error`
  std::exception_ptr error{};
  Answers(Completion op, std::size_t count) : done(std::move(op)), left(count) {}
  void one(std::exception_ptr why) {
    if (why && !failed.exchange(true)) error = std::move(why);
    if (left.fetch_sub(1) > 1) return;
    error ? done.fail(std::move(error)) : done.done();
  }
};

}  // namespace heddle
