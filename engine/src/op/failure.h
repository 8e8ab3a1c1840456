// Errors that travel with data: what a poisoned var holds, and the engine's list of errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <vector>

#include <heddle/error.h>

#include "op/failure_ptr.h"

namespace heddle::detail {

struct OpNode;

// The op that failed. Shared by every var that it poisoned, directly or through skipped ops.
struct FailureRoot {
  std::exception_ptr exception;
  const char* name;
  std::source_location where;
  std::uint64_t sequence;
  std::atomic<bool> seen{false};  // whether a wait has thrown the error
};

// One step of an error's path: the failed op itself, or an op skipped because of `cause`.
struct Failure {
  Failure(std::shared_ptr<FailureRoot> of, FailurePtr because, const OpNode& op);
  ~Failure();  // frees the causes in a loop, not recursively: a path may be as long as the program
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  std::shared_ptr<FailureRoot> root;
  FailurePtr cause;  // null for the failed op
  const char* name;
  std::source_location where;
  std::uint64_t sequence;
};

ErrorReport describe(const Failure& failure);

// Whether an op passes on error a rather than b. Every schedule gives the same result: timing and addresses
// do not count.
bool earlier(const Failure& a, const Failure& b);

// The error of the earliest op, in push order, that poisons a var which op reads; of one error, the shortest path. Null
// if none. Only while op's accesses are granted.
FailurePtr poison_of_reads(const OpNode& op);

// Keeps every error that still poisons a var. Of those that poison no var and that no wait has thrown it keeps the
// first 1,000, and counts the rest. Thread-safe.
class ErrorLog {
 public:
  struct Reports {
    std::vector<ErrorReport> kept;
    std::size_t more = 0;
  };
  // failed() and skipped() return what op, which has thrown or was skipped, leaves on its vars. `seen`:
  // wait_all need not report the error.
  FailurePtr failed(const OpNode& op, std::exception_ptr exception, bool seen = false);
  static FailurePtr skipped(const OpNode& op, FailurePtr cause);
  Reports take_reports();      // marks the errors as seen
  void log_unseen() noexcept;  // writes one line to the log if there are unseen errors; marks them as seen

 private:
  void prune_reported();
  std::mutex mutex_;  // guards all members below
  std::vector<std::shared_ptr<FailureRoot>> roots_;
  std::size_t more_ = 0;  // number of unseen errors that roots_ does not have
  std::size_t forget_at_ = 64;
};

}  // namespace heddle::detail
