// Engines and vars as Python objects, and waits that signals interrupt.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <heddle/engine.h>

#include "errors.h"

namespace heddle::python {

// An engine made by Python, which the object owns, or the default engine, which it does not own.
struct PythonEngine {
  std::shared_ptr<Engine> engine;
};

// A var keeps its engine alive. An engine is destroyed with the last Python object that refers to it.
struct PythonVar {
  Var var;
  std::shared_ptr<Engine> engine;
};

// A scope around a push to this engine. Releases the GIL if the push may block or run an op: with bounds,
// with the schedulers naive and fuzz, and inside an op. Other pushes only append to a queue: releasing the
// GIL would pass it to a worker and back each time.
class PushScope {
 public:
  explicit PushScope(const Engine& engine);
  ~PushScope();
  PushScope(const PushScope&) = delete;
  PushScope& operator=(const PushScope&) = delete;

 private:
  PyThreadState* released_ = nullptr;
};

void engine_was_made();  // resets PushScope's cache: a destroyed engine may have had the same address

// Engine.push and Engine.push_async, and the push that Engine.submit makes.
PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_for_submit(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
PyObject* push_async(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
const char* name_of_function(nb::handle fn);  // the default name of an op

// The time `seconds` from now; throws InvalidArgument for NaN.
std::chrono::steady_clock::time_point after(ArgumentOf of, double seconds);

// The engine of the innermost `with engine:` of this thread; null outside.
std::shared_ptr<Engine> entered_engine();

std::shared_ptr<Engine> non_owning(Engine& engine);  // a non-owning shared_ptr
void default_engine_is_used();                       // the end of the process waits for the default engine

// As Engine::wait, called with the GIL, which is released meanwhile. On the main thread Ctrl-C ends it with
// python_error. False if the var was not done after `seconds`. Errors name the failed op and its line.
bool wait_for(Engine& engine, const Var& var, std::optional<double> seconds = {});

// The var of a Var or an array of this engine; throws TypeError for anything else, InvalidArgument for another engine's.
const Var& var_of(const char* function, const Engine& engine, nb::handle object);

void bind_engine(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_graphs(nb::module_& m);

}  // namespace heddle::python
