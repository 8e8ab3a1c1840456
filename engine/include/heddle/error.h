// The errors of an engine, and the report of an error that travelled with data.
#pragma once

#include <cstddef>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace heddle {

// Base of every error that Heddle itself throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Appends the call site: "MESSAGE; called at train.cc:12". That is the line of the library call that the
// calling thread is in, or inside an op the line that pushed it. The message alone if neither is known.
std::string with_call_site(const std::string& message);
std::string without_call_site(const std::string& text);  // removes an appended call site

// A bad argument, found at the call or, for values, by the op. what() says what was passed, what is wanted
// and, if it is known, where the call was made: "reshape: shape (2, 3) has 6 elements, (4,) does not; called
// at train.cc:12".
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message);      // appends the call site as with_call_site() does
  std::string message() const { return {what(), length_}; }  // what() without the call site
  std::source_location where() const { return where_; }  // of the outermost library call; line 0: not known

 private:
  InvalidArgument(const std::string& message, std::source_location where);
  std::size_t length_;
  std::source_location where_;
};

// An asynchronous op's Completion was destroyed before done() or fail().
class DroppedCompletion : public Error {
 public:
  using Error::Error;
};

// A wait inside an op that could only end after that op itself.
class WouldDeadlock : public Error {
 public:
  using Error::Error;
};

// The op's group was cancelled, or its deadline passed, before the op started. A running op that finds this out may
// throw it as well.
class Cancelled : public Error {
 public:
  enum class Why { cancelled, overdue };
  explicit Cancelled(Why why);
  Why why() const { return why_; }

 private:
  Why why_;
};

// One failed op, as seen from a var that it poisoned.
struct ErrorReport {
  std::exception_ptr exception;   // what the op threw, type intact
  std::string op;                 // name of the op that failed
  std::source_location where;     // where that op was pushed
  std::vector<std::string> path;  // ops skipped because of it, nearest the failure first: "name at file:line"
  // what() of the exception, without the call site if that equals `where`; the type's name if it is no
  // std::exception.
  std::string message() const;
  std::string to_string() const;  // all of the above in a few lines
};

// Thrown by Engine::wait_all: every error that still poisons a var, and the first 1,000 of those that no wait has
// thrown, in the order in which they happened; and how many more there were.
class AggregateError : public Error {
 public:
  explicit AggregateError(std::vector<ErrorReport> reports, std::size_t more = 0);
  const std::vector<ErrorReport>& reports() const { return reports_; }
  std::size_t more() const { return more_; }  // errors that were counted, but not kept

 private:
  std::vector<ErrorReport> reports_;
  std::size_t more_;
};

}  // namespace heddle
