// What the engine's threads need to use the Python interpreter: the GIL, references that any thread may
// destroy, and the interpreter's end.
//
// Two rules hold in the Python bindings. A thread that waits for the engine, or makes a push that may block,
// has released the GIL. A thread takes the GIL only through HoldGil, which refuses once the interpreter ends:
// a thread that takes the GIL after that never returns.
#pragma once

#include <memory>
#include <utility>

#include <nanobind/nanobind.h>

namespace heddle::python {

namespace nb = nanobind;

// A scope in which the calling thread has the GIL, if the object converts to true. If it converts to false,
// the interpreter has ended, and no Python object may be used. Scopes may be nested, and may be used by
// threads that Python did not make.
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

// Takes the GIL for a thread that had released it with PyEval_SaveThread. Once the interpreter ends, all
// threads but the one that ends it block here for ever. CPython before 3.14 would end them, which in the
// middle of C++ code aborts the process.
void take_gil_back(PyThreadState* state);

// A scope in which the calling thread, which has the GIL, releases it.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil() { take_gil_back(state_); }
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* state_;
};

// A scope in which C++ code calls Python code. The interpreter does not end meanwhile, even if the thread
// releases the GIL. Once the interpreter has begun to end, the constructor throws Error on threads other than
// the main thread, except that it blocks a daemon thread with the GIL for ever.
class CallsPython {
 public:
  explicit CallsPython(bool has_gil = true);

 private:
  HoldGil gil_;
};

// Makes all later HoldGil scopes of threads that are in none refuse the GIL.
void close_interpreter();
// Calls close_interpreter(), and waits until no thread has the GIL or waits for it through HoldGil. Called
// once, with the GIL, before the interpreter ends. Returns false if a signal handler has raised; then the
// Python error is set.
bool end_interpreter();

// A reference to a Python object that may be destroyed on any thread, with or without the GIL. If the
// interpreter has ended, the object is leaked.
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
  // Gives up the reference and returns the object; needs the GIL.
  nb::object take() { return nb::steal(std::exchange(object_, nullptr)); }

 private:
  static void drop(PyObject* object) noexcept;
  PyObject* object_ = nullptr;
};

// Whether this is Python's main thread, on which signal handlers run.
bool is_main_thread();

void check_signals();  // runs the handlers of pending signals; throws python_error if one raises

// Throws the Python error that a call of the C API has set.
[[noreturn]] inline void raise_set() { throw nb::python_error(); }

}  // namespace heddle::python
