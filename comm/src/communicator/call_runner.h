// Runs calls on the back end, and turns what they throw into the error that the call ends with.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// One thread at a time runs calls: the one that has taken them from the CallQueue, or has begun a direct call there.
// The queue's mutex orders these threads.
class CallRunner {
 public:
  explicit CallRunner(Backend& backend) : backend_(backend) {}

  // Runs the calls, several of them as one. Blocks. Returns the error that all of them end with, or null.
  std::exception_ptr run(std::span<const std::shared_ptr<Call>> calls);
  void run(Collective& what);  // runs one call; throws the error that it ends with

 private:
  std::exception_ptr error_of_failed(const std::exception_ptr& thrown);

  Backend& backend_;
  std::exception_ptr first_error_;  // the error that aborted the back end: all later calls end with it
  std::vector<std::byte> fused_;    // memory of calls that run as one
};

}  // namespace heddle::comm_detail
