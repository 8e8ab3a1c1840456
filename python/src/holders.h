// Wrappers for Python of C++ objects whose destructors wait for ops, or which are not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <heddle/error.h>

#include "engine/interruptibly.h"
#include "errors.h"
#include "interpreter.h"

namespace heddle::python {

// Calls function() without the GIL, whether or not the calling thread has it.
template <class Function> void without_gil(Function&& function) {
  const HoldGil gil;
  if (!gil) return function();
  const ReleaseGil released;
  function();
}

// Makes a pointer whose last owner destroys the object without the GIL: the destructor may wait for ops that
// need the GIL.
template <class T> std::shared_ptr<T> destroyed_without_gil(std::shared_ptr<T> object) {
  T* raw = object.get();
  if (!raw) return nullptr;
  return std::shared_ptr<T>(raw,
                            [held = std::move(object)](T*) mutable { without_gil([&] { held.reset(); }); });
}

// The lock of an object. It is recursive, since a function that the object calls, such as a schedule, may use
// the object. A thread locks it without the GIL.
using ObjectMutex = std::recursive_timed_mutex;

// A scope that records that this thread holds the lock of an object. Inside it, a call that may block for
// long would run on another thread, which would wait for the lock for ever. refuse() throws in that case.
class HeldLock {
 public:
  explicit HeldLock(ObjectMutex& mutex) { held().push_back(&mutex); }
  ~HeldLock() { held().pop_back(); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  static void refuse(const ObjectMutex& mutex, const char* function) {
    if (check::running_op() || std::find(held().begin(), held().end(), &mutex) == held().end()) return;
    throw WouldDeadlock(
        std::string(function) +
        ": inside a call of the same object or of one that uses it, as a schedule is, this would "
        "wait for that call; call it afterwards");
  }

 private:
  static std::vector<const ObjectMutex*>& held() {
    static thread_local std::vector<const ObjectMutex*> mutexes;
    return mutexes;
  }
};

// An object that is not thread-safe, together with its lock. Objects that use each other share a lock.
template <class T> class Locked {
 public:
  explicit Locked(std::shared_ptr<T> object, std::shared_ptr<ObjectMutex> mutex = nullptr)
      : object_(destroyed_without_gil(std::move(object))),
        mutex_(mutex ? std::move(mutex) : std::make_shared<ObjectMutex>()) {}

  // Calls function(object) under the lock and without the GIL. The caller holds the GIL. Signals can
  // interrupt the wait for the lock, but not function(object).
  template <class Function> decltype(auto) call(Function&& function) const {
    lock();
    const std::lock_guard guard(*mutex_, std::adopt_lock);
    const HeldLock held(*mutex_);
    const ReleaseGil released;
    return function(*object_);
  }
  // Like call(), for functions that may block for long: Ctrl-C ends the wait for them. `function` must own
  // all that it uses. If this thread holds the lock already, throws WouldDeadlock, whose message has `name`.
  template <class Function> auto call_interruptibly(const char* name, Function function) const {
    HeldLock::refuse(*mutex_, name);
    return interruptibly([name, object = object_, mutex = mutex_, function = std::move(function)]() mutable {
      const std::lock_guard guard(*mutex);
      const HeldLock held(*mutex);
      return in_call(name, [&] { return function(*object); });
    });
  }

  const std::shared_ptr<T>& object() const { return object_; }
  const std::shared_ptr<ObjectMutex>& mutex() const { return mutex_; }

 private:
  void lock() const {
    if (mutex_->try_lock()) return;
    const bool looks = is_interruptible();
    while (true) {
      {
        const ReleaseGil released;
        if (!looks) return mutex_->lock();
        if (mutex_->try_lock_for(kSlice)) return;
      }
      check_signals();
    }
  }
  std::shared_ptr<T> object_;
  std::shared_ptr<ObjectMutex> mutex_;
};

}  // namespace heddle::python
