// Errors that travel with data: what a poisoned var holds, and the engine's list of what went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <vector>

#include <heddle/error.h>

namespace heddle::detail {

struct OpNode;

// The op that failed. Shared by every var it poisoned, directly or on the way.
struct FailureRoot {
  std::exception_ptr exception;
  const char* name;
  std::source_location where;
  std::uint64_t sequence;
  std::atomic<bool> seen{false};  // somebody's wait threw it
};

// One step of an error's path: the failed op itself, or an op skipped because of `cause`.
struct Failure {
  Failure(std::shared_ptr<FailureRoot> of, std::shared_ptr<const Failure> because, const OpNode& op);
  ~Failure();  // a path may be as long as the program: unwound without recursion
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  std::shared_ptr<FailureRoot> root;
  std::shared_ptr<const Failure> cause;  // null for the failed op
  const char* name;
  std::source_location where;
  std::uint64_t sequence;
};

ErrorReport describe(const Failure& failure);

// Which of two errors wins: the same one in every schedule, so that it does not depend on timing or on addresses.
bool earlier(const Failure& a, const Failure& b);

// The earliest error, in push order, on what op reads, by its shortest history; null if all is well. Only while op holds its grants.
std::shared_ptr<const Failure> poison_of_reads(const OpNode& op);

// Every error that still poisons a var, and of those that poison none and that nobody has seen the first 1,000; the rest is
// counted. Thread-safe.
class ErrorLog {
 public:
  struct Reports {
    std::vector<ErrorReport> kept;
    std::size_t more = 0;
  };
  // `seen`: nobody else needs to hear of it.
  std::shared_ptr<const Failure> failed(const OpNode& op, std::exception_ptr exception, bool seen = false);
  static std::shared_ptr<const Failure> skipped(const OpNode& op, std::shared_ptr<const Failure> cause);
  Reports take_reports();      // marks them seen
  void log_unseen() noexcept;  // one line to stderr, none if there is none; marks them seen

 private:
  void forget_settled();
  std::mutex mutex_;  // guards all below
  std::vector<std::shared_ptr<FailureRoot>> roots_;
  std::size_t more_ = 0;  // unseen, and not in roots_
  std::size_t forget_at_ = 64;
};

}  // namespace heddle::detail
