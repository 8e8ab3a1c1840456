// The access checker: finds ops that touch data which they did not declare. HEDDLE_CHECK=1 turns it on.
//
// Every order that the engine keeps rests on the access lists. A var that is missing from one is a race that shows
// once a year; with the checker on it is an error of that op, each time. Whoever owns data asks the checker where the
// data is handed out: NDArray does, and other owners keep a Record beside their var.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <heddle/error.h>
#include <heddle/var.h>

namespace heddle {

// Data was touched that the op did not declare, or that other ops may be changing. Names the op, where it was pushed,
// the data, what was declared and what was done.
class UndeclaredAccess : public Error {
 public:
  using Error::Error;
};

namespace detail {
extern std::atomic<bool> checking;
}

namespace check {

// For the whole process; at its start HEDDLE_CHECK decides: 1 is on, 0 or nothing is off. Best called while no op is in
// flight: what was made or pushed before is not known to the checker.
void enable(bool on);
inline bool enabled() { return detail::checking.load(std::memory_order_relaxed); }

// The name of the op that the calling thread is in, the innermost one of whichever engine; null outside ops. Valid until
// the op ends.
const char* running_op();

enum class Touch : std::uint8_t {
  read,
  write,  // or may write: memory that is not const was handed out
};

// What the checker remembers of one piece of data. Thread-safe. To be called only while enabled().
class Record {
 public:
  // The data was made by the calling thread. If that is in an op, this op may touch the data undeclared.
  void made(const Var& var);

  // The calling thread is about to push an op that mutates the data.
  void pushed();

  // Throws UndeclaredAccess with describe()'s words for the data, unless the op that the calling thread is in has
  // declared `touch` of var: the innermost one of var's engine, and of all chunks of a parallel_for the op that runs it.
  // A mutated var may be read too. Outside ops, and in the op that made the data, throws if an op that mutates var is
  // in flight and the calling thread itself has pushed the last one: it forgot to wait. What another thread has pushed
  // proves nothing: the caller may be doing an asynchronous op's work.
  void touched(const Var& var, Touch touch, const std::function<std::string()>& describe) const;

 private:
  const void* maker_ = nullptr;  // the op; its memory serves others later, so its number is kept as well
  std::uint64_t maker_sequence_ = 0;
  std::atomic<const void*> pusher_{nullptr};  // a thread, by an address of its own
};

}  // namespace check
}  // namespace heddle
