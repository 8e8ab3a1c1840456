// Engines and vars as Python objects, and waits that signals interrupt.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <heddle/engine.h>

#include "errors.h"

namespace heddle::python {

// The Python object of an engine. It owns an engine that Python has made; it does not own the default engine.
struct PythonEngine {
  std::shared_ptr<Engine> engine;
};

// The Python object of a var. It keeps its engine alive: an engine is destroyed with the last Python object
// that refers to it.
struct PythonVar {
  Var var;
  std::shared_ptr<Engine> engine;
};

// A scope around a push to an engine. Releases the GIL if the push may block or run an op: if the engine is
// bounded, if its scheduler is naive or fuzz, and inside an op. Any other push only appends to a queue, so
// the GIL is kept: releasing it would pass it to a worker and back at each push.
class PushScope {
 public:
  explicit PushScope(const Engine& engine);
  ~PushScope();
  PushScope(const PushScope&) = delete;
  PushScope& operator=(const PushScope&) = delete;

 private:
  PyThreadState* released_ = nullptr;
};

// Resets the cache of PushScope: a new engine may have the address of a destroyed one.
void engine_was_made();

// Engine.push and Engine.push_async, and the push that Engine.submit makes.
PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_for_submit(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_async(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
const char* name_of_function(nb::handle fn);  // the default name of an op that calls `fn`

// The time `seconds` from now; throws InvalidArgument for NaN.
std::chrono::steady_clock::time_point after(ArgumentOf of, double seconds);

// The engine of the innermost `with engine:` block that this thread is in; null if it is in none.
std::shared_ptr<Engine> entered_engine();

std::shared_ptr<Engine> non_owning(Engine& engine);  // a shared_ptr that does not own the engine
void default_engine_is_used();                       // makes the process's end wait for the default engine

// Waits for a var as Engine::wait does. Called with the GIL, which is released during the wait. On the main
// thread Ctrl-C ends the wait with python_error. Returns false if the var was not done after `seconds`.
// Errors name the failed op and the line that pushed it.
bool wait_for(Engine& engine, const Var& var, std::optional<double> seconds = {});

// The var of a Python object, a Var or an array. Throws TypeError for any other object, and InvalidArgument
// if the var belongs to another engine.
const Var& var_of(const char* function, const Engine& engine, nb::handle object);

void bind_engine(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_graphs(nb::module_& m);

}  // namespace heddle::python
