// Engines and vars as Python holds them, and waits that signals interrupt.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <heddle/engine.h>

#include "errors.h"

namespace heddle::python {

// An engine that Python made, or the default engine, which this does not own.
struct PythonEngine {
  std::shared_ptr<Engine> engine;
};

// A var keeps its engine: engines are destroyed when nothing of Python names them.
struct PythonVar {
  Var var;
  std::shared_ptr<Engine> engine;
};

// For the duration of a push to this engine. Releases the GIL if the push may block, or run an op: with bounds, with the
// schedulers naive and fuzz, and inside an op. A push to worker threads only appends to a queue: to release the GIL for that
// would hand it to a worker and back each time.
class PushScope {
 public:
  explicit PushScope(const Engine& engine);
  ~PushScope();
  PushScope(const PushScope&) = delete;
  PushScope& operator=(const PushScope&) = delete;

 private:
  PyThreadState* released_ = nullptr;
};

void engine_was_made();  // an engine that is gone may have had its address

// Engine.push and Engine.push_async, and the push that Engine.submit makes.
PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_for_submit(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_async(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
const char* name_of_function(nb::handle fn);  // for ops

std::chrono::steady_clock::time_point after(ArgumentOf of, double seconds);  // throws InvalidArgument for NaN

// The engine of the innermost `with engine:` of this thread; null outside.
std::shared_ptr<Engine> entered_engine();

std::shared_ptr<Engine> borrowed(Engine& engine);  // that something else keeps
void default_engine_is_used();                     // so that the end of the process waits for it

// As Engine::wait, with the GIL, which is released meanwhile. On the main thread Ctrl-C ends it: throws python_error then.
// With seconds: false if the var was not done by then. Errors name the op that failed and its line.
bool wait_for(Engine& engine, const Var& var, std::optional<double> seconds = {});

// The var of a Var or an array of this engine; throws TypeError for anything else, InvalidArgument for another engine's.
const Var& var_of(const char* function, const Engine& engine, nb::handle object);

void bind_engine(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_graphs(nb::module_& m);

}  // namespace heddle::python
