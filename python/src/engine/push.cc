// Engine.push and Engine.push_async: pushes of Python functions.
#include <algorithm>
#include <climits>
#include <optional>
#include <string>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/group.h>
#include <heddle/ndarray.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/python_op.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// The engine of the latest push, and whether pushes to it may block, as a cache. The GIL guards the cache.
const Engine* known_engine = nullptr;
bool known_may_block = false;

constexpr const char* kVars = "a Var, an array, or a list of these";

// Makes a tuple of the items, since another thread may change a list while the GIL is released.
nb::object as_tuple(ArgumentOf of, nb::handle items) {
  if (PyTuple_Check(items.ptr())) return nb::borrow(items);
  PyObject* tuple = PySequence_Tuple(items.ptr());
  if (!tuple) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) raise_set();
    PyErr_Clear();
    refuse_type(of, items, kVars);
  }
  return nb::steal(tuple);
}

bool is_var(nb::handle object) {
  return nb::isinstance<PythonVar>(object) || nb::isinstance<NDArray>(object);
}

// Collects the vars that a push reads and mutates. Mutated arrays go through array_access, as those of
// operators do.
struct PushList {
  const char* call;
  Access access{};
  nb::object keep[2]{};

  void add(nb::handle object, bool mutates) {
    if (nb::isinstance<PythonVar>(object)) return add(nb::inst_ptr<PythonVar>(object)->var, mutates);
    if (nb::isinstance<NDArray>(object)) {
      const NDArray& array = *nb::inst_ptr<NDArray>(object);
      if (mutates) {
        // Lets autograd count the change of the array, now or in each launch of a graph.
        array_access(call, {}, {&array, 1});
        if (!array.covers_storage()) access.read.add(array.var());
      }
      return add(array.var(), mutates);
    }
    raise(PyExc_TypeError, std::string(call) + ": " + argument(mutates) + " has a " + kind_of(object) +
                               "; want Vars and arrays");
  }
  static const char* argument(bool mutates) { return mutates ? "mutate" : "read"; }
  void add(const Var& var, bool mutates) { (mutates ? access.mutate : access.read).add(var); }
  void add_all(PyObject* items, bool mutates) {
    if (!items || items == Py_None) return;
    if (is_var(items)) return add(items, mutates);
    nb::object tuple = as_tuple({call, argument(mutates)}, items);
    const Py_ssize_t size = PyTuple_Size(tuple.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) add(PyTuple_GetItem(tuple.ptr(), i), mutates);
    keep[mutates] = std::move(tuple);
  }
};

constexpr Arguments<8> kPush{{"fn", "read", "mutate", "name", "priority", "group", "skipped", "bytes"}, 1, 1};

bool is_given(PyObject* object) { return object && object != Py_None; }

// The arguments of Engine.push or Engine.push_async. Those for the C++ engine are in list.access.
struct PushCall {
  PushList list;
  PyObject* fn;
  PyObject* skipped;
  // Keeps the engine alive: another thread may destroy the engine's Python object while the GIL is released.
  std::shared_ptr<Engine> engine;
  Where where = python_call_site();

  PushCall(const char* call, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords)
      : list{call}, engine(nb::inst_ptr<PythonEngine>(self)->engine) {
    const auto given = kPush.take(call, args, count, keywords);
    const auto [function, read, mutate, name, priority, group, skip, bytes] = given;
    if (!PyCallable_Check(function)) refuse_type({call, "fn"}, function, "what is callable");
    fn = function;
    skipped = is_given(skip) ? skip : nullptr;
    if (skipped && !PyCallable_Check(skipped)) refuse_type({call, "skipped"}, skipped, "what is callable");
    list.add_all(read, false);
    list.add_all(mutate, true);
    Access& access = list.access;
    if (is_given(name) && !PyUnicode_Check(name)) refuse_type({call, "name"}, name, "a str");
    access.name = is_given(name) ? interned(nb::handle(name)) : name_of_function(fn);
    if (is_given(priority)) {
      const std::int64_t wanted = int_argument({call, "priority"}, priority);
      // Clamps the priority only to the range of int. The engine checks whether it is valid.
      access.priority = static_cast<int>(std::clamp<std::int64_t>(wanted, INT_MIN, INT_MAX));
    }
    if (is_given(bytes)) access.bytes = static_cast<std::size_t>(int_argument({call, "bytes"}, bytes, 0));
    if (!is_given(group)) return;
    if (!nb::isinstance<Group>(group)) refuse_type({call, "group"}, group, "a Group");
    access.group = *nb::inst_ptr<Group>(group);
  }
};

// Pushes `op` by `push`; wraps it in WithSkip if the Python call has the argument `skipped`.
template <class Op, class Push> void with_skip(const PushCall& call, Op op, Push&& push) {
  if (call.skipped) {
    WithSkip<Op> telling(std::move(op), nb::borrow(call.skipped));
    const PushScope scope(*call.engine);
    return push(std::move(telling));
  }
  const PushScope scope(*call.engine);
  push(std::move(op));
}

}  // namespace

PushScope::PushScope(const Engine& engine) {
  if (!check::running_op()) {
    if (&engine != known_engine) {
      const EngineOptions options = engine.options();
      known_engine = &engine;
      known_may_block = options.scheduler != Scheduler::threaded || options.max_ops || options.max_bytes;
    }
    if (!known_may_block) return;
  }
  released_ = PyEval_SaveThread();
}

PushScope::~PushScope() {
  if (released_) take_gil_back(released_);
}

const char* name_of_function(nb::handle fn) {
  const nb::object name = nb::getattr(fn, "__name__", nb::none());
  return PyUnicode_Check(name.ptr()) ? interned(name) : "op";
}

void engine_was_made() { known_engine = nullptr; }

namespace {

PyObject* push_as(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const PushCall call(name, self, args, count, keywords);
    with_skip(call, PythonOp(nb::borrow(call.fn), call.where, !is_capturing()), [&](auto&& op) {
      call.engine->push(std::forward<decltype(op)>(op), call.list.access, call.where);
    });
    Py_RETURN_NONE;
  });
}

}  // namespace

PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return push_as("push", self, args, count, keywords);
}

PyObject* push_for_submit(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return push_as("submit", self, args, count, keywords);
}

PyObject* push_async(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const PushCall call("push_async", self, args, count, keywords);
    with_skip(call, PythonAsyncOp(nb::borrow(call.fn), call.where, !is_capturing()), [&](auto&& op) {
      call.engine->push_async(std::forward<decltype(op)>(op), call.list.access, call.where);
    });
    Py_RETURN_NONE;
  });
}

}  // namespace heddle::python
