#include "interpreter.h"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#include <heddle/error.h>

namespace heddle::python {
namespace {

// Counts the threads that have the GIL, or wait for it, through HoldGil. Once it is closed, none may enter.
struct Gate {
  std::atomic<int> inside{0};
  std::atomic<bool> closed{false};

  bool enter() {
    inside.fetch_add(1, std::memory_order_seq_cst);
    if (!closed.load(std::memory_order_seq_cst)) return true;
    leave();
    return false;
  }
  void leave() { inside.fetch_sub(1, std::memory_order_release); }
};
Gate gate;
thread_local int depth = 0;  // nesting depth of HoldGil on this thread

// Resets the count in the child of a fork, where only the thread that forked exists.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { gate.inside.store(depth > 0 ? 1 : 0); });

// The Python thread state of a thread that Python did not make. The thread gets it at its first HoldGil and
// keeps it, since making one costs more than a call of a Python function.
struct ThreadOfOurs {
  PyThreadState* state = nullptr;
  PyGILState_STATE before{};
  ThreadOfOurs() {
    if (PyGILState_GetThisThreadState()) return;
    before = PyGILState_Ensure();
    state = PyEval_SaveThread();
  }
  ~ThreadOfOurs() {
    if (!state || !gate.enter()) return;
    PyEval_RestoreThread(state);
    PyGILState_Release(before);
    gate.leave();
  }
};

// When the interpreter ends, CPython ends a thread that waits for the GIL by pthread_exit, which unwinds the
// stack. This object is on that stack: its destructor blocks for ever, so that frames of C++ code, which must
// not be unwound, stay.
struct StayIfUnwound {
  bool back = false;
  ~StayIfUnwound() {
    while (!back) pause();
  }
};

// Whether the calling thread is a daemon, which the end of the process does not wait for. Needs the GIL.
bool is_daemon() {
  StayIfUnwound stay;
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* thread = threading ? PyObject_CallMethod(threading, "current_thread", nullptr) : nullptr;
  PyObject* daemon = thread ? PyObject_GetAttrString(thread, "daemon") : nullptr;
  const bool result = daemon == Py_True;
  if (!daemon) PyErr_Clear();
  Py_XDECREF(daemon);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  stay.back = true;
  return result;
}

// Blocks a daemon thread for ever once the interpreter ends: otherwise it would get errors of discarded ops.
// Needs the GIL.
void stay_if_over() {
  if (!gate.closed.load(std::memory_order_relaxed) || depth > 0 || is_main_thread() || !is_daemon()) return;
  PyEval_SaveThread();
  const StayIfUnwound for_ever;
}

}  // namespace

void take_gil_back(PyThreadState* state) {
  StayIfUnwound stay;
  PyEval_RestoreThread(state);
  stay.back = true;
  stay_if_over();
}

HoldGil::HoldGil() : held_(depth > 0 || gate.enter()) {
  if (!held_) return;
  thread_local ThreadOfOurs thread_of_ours;
  static_cast<void>(thread_of_ours);
  ++depth;
  state_ = PyGILState_Ensure();
}

HoldGil::~HoldGil() {
  if (!held_) return;
  PyGILState_Release(state_);
  if (--depth == 0) gate.leave();
}

CallsPython::CallsPython(bool has_gil) {
  if (gil_ || is_main_thread()) return;
  if (has_gil) stay_if_over();
  throw Error("the interpreter ends");
}

void close_interpreter() { gate.closed.store(true, std::memory_order_seq_cst); }

bool end_interpreter() {
  close_interpreter();
  while (gate.inside.load(std::memory_order_acquire) > (depth > 0 ? 1 : 0)) {
    {
      const ReleaseGil released;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (PyErr_CheckSignals() != 0) return false;
  }
  return true;
}

void Reference::drop(PyObject* object) noexcept {
  const HoldGil gil;
  if (gil) Py_DECREF(object);
}

bool is_main_thread() {
  static const unsigned long main_thread = [] {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    return nb::cast<unsigned long>(main.attr("ident"));
  }();
  // CPython's identifier of a thread is its pthread_t, so both can be compared.
  return static_cast<unsigned long>(pthread_self()) == main_thread;
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) raise_set();
}

}  // namespace heddle::python
