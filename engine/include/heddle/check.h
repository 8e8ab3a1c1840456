// The access checker: finds ops that touch data which they did not declare. HEDDLE_CHECK=1 turns it on.
//
// The engine orders ops by their access lists. A var that is missing from a list is a race that hardly ever shows; with
// the checker on it is an error of that op, each time. A type that owns data calls the checker where it hands the data
// out: NDArray does, and other types keep a Record beside their var.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <heddle/error.h>
#include <heddle/var.h>

namespace heddle {

// An op touched data that it did not declare, or a thread touched data that ops may be changing. what() names
// the op, where it was pushed, the data, what was declared and what was done.
class UndeclaredAccess : public Error {
 public:
  using Error::Error;
};

namespace detail {
extern std::atomic<bool> checking;
}

namespace check {

// Turns the checker on or off in the whole process; the initial state is HEDDLE_CHECK: 1 is on, 0 or nothing
// is off. Best called while no op is in flight, since the checker does not know what was made or pushed while
// it was off.
void enable(bool on);

inline bool enabled() { return detail::checking.load(std::memory_order_relaxed); }

// The name of the innermost op that the calling thread is in, of any engine; null outside ops. Valid until the op ends.
const char* running_op();

enum class AccessKind : std::uint8_t {
  read,
  write,  // the data is or may be written: the op got a pointer to non-const memory
};

// The checker's state for one piece of data. Thread-safe. Call only while enabled().
class Record {
 public:
  // The calling thread has made the data. If it is in an op, this op may touch the data without declaring it.
  void made(const Var& var);

  // The calling thread is about to push an op that mutates the data.
  void pushed();

  // Throws UndeclaredAccess, with describe()'s text for the data, unless the calling thread's op has declared
  // `touch` of var. That op is the innermost one of var's engine; in a launch, the op of the graph; in a
  // chunk of a parallel_for, the op that runs the loop; a thread that an op started is in none. A var that is
  // declared as mutated may be read. Outside ops, and in the op that made the data, throws if an op that
  // mutates var is in flight and the calling thread has pushed the last such op: it forgot to wait. An op
  // that another thread has pushed is no error, since the caller may be doing an asynchronous op's work.
  void check_access(const Var& var, AccessKind touch, const std::function<std::string()>& describe) const;

 private:
  // The op that made the data: its address and its sequence number, since a later op may get the same
  // address.
  const void* maker_ = nullptr;
  std::uint64_t maker_sequence_ = 0;
  // The thread that last pushed an op which mutates the data. Identified by the address of a thread-local
  // variable.
  std::atomic<const void*> pusher_{nullptr};
};

}  // namespace check
}  // namespace heddle
