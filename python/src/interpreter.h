// The interpreter as the engine's threads see it: the GIL, references that may die on any thread, and its end.
//
// Two rules hold in this module. A thread that waits for the engine, or pushes to it, has released the GIL. A thread takes the
// GIL only through HoldGil, which refuses once the interpreter ends: whoever wants the GIL after that never comes back.
#pragma once

#include <memory>
#include <utility>

#include <nanobind/nanobind.h>

namespace heddle::python {

namespace nb = nanobind;

// The calling thread has the GIL while a HoldGil lives that is true. False: the interpreter has ended, and nothing of Python
// may be touched. May be nested, and used by threads that Python did not make.
class HoldGil {
 public:
  HoldGil();
  ~HoldGil();
  HoldGil(const HoldGil&) = delete;
  HoldGil& operator=(const HoldGil&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_;
  PyGILState_STATE state_{};
};

using ReleaseGil = nb::gil_scoped_release;

// From now on HoldGil lets nobody begin.
void close_interpreter();
// The same, and waits until no thread holds or wants the GIL through HoldGil. Called once, with the GIL, before the interpreter
// ends. False: a signal's handler has raised; the Python error is set.
bool end_interpreter();

// A reference that may be destroyed on any thread, with or without the GIL. Once the interpreter has ended it is leaked.
class Reference {
 public:
  Reference() = default;
  explicit Reference(nb::object object) : object_(object.release().ptr()) {}
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() {
    if (object_) drop(object_);
  }
  PyObject* get() const { return object_; }
  nb::object take() { return nb::steal(std::exchange(object_, nullptr)); }  // with the GIL

 private:
  static void drop(PyObject* object) noexcept;
  PyObject* object_ = nullptr;
};

// Whether signal handlers run on this thread.
bool is_main_thread();

void check_signals();  // throws python_error if a handler raised

// Throws the Python error that a call of the C API has set.
[[noreturn]] inline void raise_set() { throw nb::python_error(); }

}  // namespace heddle::python
