// Engines, vars, groups and graphs.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/group.h>
#include <heddle/ndarray.h>

#include "arguments.h"
#include "array.h"
#include "engines.h"
#include "errors.h"
#include "holders.h"
#include "place.h"
#include "python_op.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Clock = std::chrono::steady_clock;

// How long a wait of the main thread goes on without a look for signals.
constexpr std::chrono::milliseconds kSlice{50};

// The engines that the end of the process waits for. The GIL guards both.
std::vector<std::weak_ptr<Engine>>& engines() {
  static auto& list = *new std::vector<std::weak_ptr<Engine>>;
  return list;
}
bool default_is_used = false;
// The engine of the latest push, and whether its pushes may block. The GIL guards both.
const Engine* known_engine = nullptr;
bool known_may_block = false;
std::atomic<int> deletions{0};  // under way on threads of their own

Clock::time_point after(double seconds) {
  constexpr double kLongest = 1e9;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(std::max(seconds, 0.0), kLongest)));
}

// The last reference may end inside an op of this engine, which would wait for itself: then another thread destroys it.
void destroy(Engine* engine) noexcept {
  if (!check::running_op()) return without_gil([engine] { delete engine; });
  deletions.fetch_add(1);
  std::thread([engine] {
    delete engine;
    deletions.fetch_sub(1);
  }).detach();
}

EngineOptions options_of(std::optional<int> workers, std::optional<std::string> scheduler,
                         std::optional<std::uint64_t> seed, std::optional<double> watchdog,
                         std::optional<double> spin, std::optional<std::size_t> max_ops,
                         std::optional<std::size_t> max_bytes) {
  EngineOptions options = EngineOptions::from_environment();
  if (scheduler) {
    if (*scheduler == "threaded") {
      options.scheduler = Scheduler::threaded;
    } else if (*scheduler == "naive") {
      options.scheduler = Scheduler::naive;
    } else if (*scheduler == "fuzz") {
      options.scheduler = Scheduler::fuzz;
    } else {
      throw InvalidArgument("Engine: scheduler is '" + *scheduler + "'; want threaded, naive or fuzz");
    }
  }
  if (workers) options.workers = *workers;
  if (seed) options.seed = *seed;
  if (watchdog) options.watchdog = *watchdog;
  if (spin) options.spin = *spin;
  if (max_ops) options.max_ops = *max_ops;
  if (max_bytes) options.max_bytes = *max_bytes;
  return options;
}

PythonEngine make_engine(const EngineOptions& options) {
  Engine* made;
  {
    const ReleaseGil released;
    made = new Engine(options);
  }
  known_engine = nullptr;  // an engine that is gone may have had this address
  std::shared_ptr<Engine> engine(made, destroy);
  std::erase_if(engines(), [](const std::weak_ptr<Engine>& old) { return old.expired(); });
  engines().push_back(engine);
  return {engine};
}

// A list may change while the GIL is released: what is in it is held by a tuple.
nb::object as_tuple(nb::handle items) {
  if (PyTuple_Check(items.ptr())) return nb::borrow(items);
  PyObject* tuple = PySequence_Tuple(items.ptr());
  if (!tuple) raise_set();
  return nb::steal(tuple);
}

bool is_var(nb::handle object) {
  return nb::isinstance<PythonVar>(object) || nb::isinstance<NDArray>(object);
}

// What a push is told: arrays that it mutates count as array_access counts them.
struct PushList {
  Access access;
  Declared declared;
  nb::object keep[2];

  void add(nb::handle object, bool mutates) {
    if (nb::isinstance<PythonVar>(object)) return add(nb::inst_ptr<PythonVar>(object)->var, mutates);
    if (nb::isinstance<NDArray>(object)) {
      const NDArray& array = *nb::inst_ptr<NDArray>(object);
      if (mutates) {
        array.storage()->bump_version();
        if (!array.covers_storage()) access.read.add(array.var());
      }
      return add(array.var(), mutates);
    }
    raise(PyExc_TypeError, std::string("push: ") + (mutates ? "mutate" : "read") + " has a " +
                               kind_of(object) + "; want Vars and arrays");
  }
  void add(const Var& var, bool mutates) {
    (mutates ? access.mutate : access.read).add(var);
    declared.add(var.state(), mutates);
  }
  void add_all(PyObject* items, bool mutates) {
    if (!items || items == Py_None) return;
    if (is_var(items)) return add(items, mutates);
    nb::object tuple = as_tuple(items);
    const Py_ssize_t size = PyTuple_Size(tuple.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) add(PyTuple_GetItem(tuple.ptr(), i), mutates);
    keep[mutates] = std::move(tuple);
  }
};

const char* name_of_function(nb::handle fn) {
  const nb::object name = nb::getattr(fn, "__name__", nb::none());
  return PyUnicode_Check(name.ptr()) ? interned(name) : "op";
}

constexpr Arguments<7> kPush{{"fn", "read", "mutate", "name", "priority", "group", "skipped"}, 1, 1};

PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const auto [fn, read, mutate, name, priority, group, skipped] = kPush.take("push", args, count, keywords);
    if (!PyCallable_Check(fn)) raise(PyExc_TypeError, "push: fn is not callable");
    PushList list;
    list.add_all(read, false);
    list.add_all(mutate, true);
    Access& access = list.access;
    access.name = name && name != Py_None ? interned(nb::handle(name)) : name_of_function(fn);
    if (priority && priority != Py_None) access.priority = nb::cast<int>(nb::handle(priority));
    if (group && group != Py_None) access.group = nb::cast<Group&>(nb::handle(group));
    const Where where = python_place();
    // The engine of a Python object that other threads may drop while the GIL is released.
    const std::shared_ptr<Engine> engine = nb::inst_ptr<PythonEngine>(self)->engine;
    PythonOp op(nb::borrow(fn), std::move(list.declared), where, !is_capturing());
    if (skipped && skipped != Py_None) {
      PythonOpWithSkip with_skip(std::move(op), nb::borrow(skipped));
      const PushScope scope(*engine);
      engine->push(std::move(with_skip), access, where);
    } else {
      const PushScope scope(*engine);
      engine->push(std::move(op), access, where);
    }
    Py_RETURN_NONE;
  });
}

constexpr Arguments<2> kWait{{"var", "timeout"}, 2, 1};

PyObject* wait(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const auto [object, timeout] = kWait.take("wait", args, count, keywords);
    const std::shared_ptr<Engine> engine = nb::inst_ptr<PythonEngine>(self)->engine;
    const Var& var = var_of(*engine, object);
    const std::optional<double> seconds =
        timeout && timeout != Py_None ? std::optional(nb::cast<double>(nb::handle(timeout))) : std::nullopt;
    return PyBool_FromLong(wait_for(*engine, var, seconds));
  });
}

// Engine::wait_all has no deadline: the main thread has another one wait, and looks for signals meanwhile. Inside an op the
// caller waits itself, which is an error that names the op.
void wait_all(const std::shared_ptr<Engine>& engine) {
  if (!is_main_thread() || check::running_op()) {
    const ReleaseGil released;
    engine->wait_all();
    return;
  }
  struct Shared {
    std::mutex mutex;  // guards the rest
    std::condition_variable ended;
    bool over = false;
    std::exception_ptr error;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([engine, shared] {
    std::exception_ptr error;
    try {
      engine->wait_all();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(shared->mutex);
    shared->over = true;
    shared->error = error;
    shared->ended.notify_all();
  }).detach();
  for (bool over = false; !over;) {
    {
      const ReleaseGil released;
      std::unique_lock lock(shared->mutex);
      over = shared->ended.wait_for(lock, kSlice, [&] { return shared->over; });
    }
    if (!over) check_signals();
  }
  if (shared->error) std::rethrow_exception(shared->error);
}

// What the end of the process does first: waits for all ops, prints what nobody has seen, and lets no op into Python again.
void shut_down() {
  std::vector<std::shared_ptr<Engine>> all;
  for (const std::weak_ptr<Engine>& engine : engines()) {
    if (std::shared_ptr<Engine> living = engine.lock()) all.push_back(std::move(living));
  }
  if (default_is_used) all.push_back(borrowed(default_engine()));
  for (const std::shared_ptr<Engine>& engine : all) {
    try {
      wait_all(engine);
    } catch (const AggregateError& error) {
      for (const ErrorReport& report : error.reports()) {
        if (!was_raised(report.exception)) PySys_WriteStderr("heddle: %s\n", report.to_string().c_str());
      }
    } catch (const Error&) {  // of an engine from before a fork
    } catch (nb::python_error& interrupted) {
      close_interpreter();  // before another op begins
      PySys_WriteStderr("heddle: interrupted at exit: ops that have not run are dropped\n");
      interrupted.restore();
      PyErr_Clear();
      break;
    }
  }
  while (deletions.load() > 0) {
    const ReleaseGil released;
    std::this_thread::yield();
  }
  if (!end_interpreter()) _exit(130);
}

struct Scopes {
  std::vector<std::unique_ptr<EngineScope>> list;
};
thread_local Scopes scopes;

using PythonSlotValue = std::shared_ptr<Reference>;
struct PythonSlot {
  Slot<PythonSlotValue> slot;
  std::shared_ptr<Engine> engine;
};

Binding bind(const PythonSlot& slot, nb::object value) {
  return slot.slot.bind(std::make_shared<Reference>(std::move(value)));
}

struct PythonGraph {
  Graph graph;
  std::shared_ptr<Engine> engine;
};

PyMethodDef engine_methods[] = {
    {"push", as_function(push), METH_FASTCALL | METH_KEYWORDS,
     "push($self, fn, *, read=(), mutate=(), name=None, priority=0, group=None, skipped=None)\n--\n\n"
     "Queues fn() as an op and returns. read and mutate: Vars and arrays. An exception out of fn poisons "
     "what the op "
     "mutates. skipped(exception) is called if the op is not going to run."},
    {"wait", as_function(wait), METH_FASTCALL | METH_KEYWORDS,
     "wait($self, var, timeout=None)\n--\n\n"
     "Blocks until every op pushed so far that mutates the var or array is done; raises the error that "
     "poisons it. False "
     "if that took longer than `timeout` seconds."},
    {nullptr, nullptr, 0, nullptr}};
const PyType_Slot engine_slots[] = {{Py_tp_methods, engine_methods}, {0, nullptr}};

void bind_groups(nb::module_& m) {
  nb::class_<Group>(m, "Group",
                    "Ops that are cancelled together, by a call or because their deadline has passed.")
      .def(
          "__init__",
          [](Group* self, std::optional<double> timeout) {
            new (self) Group;
            if (timeout) self->set_deadline(after(*timeout));
          },
          "timeout"_a = nb::none())
      .def("cancel", &Group::cancel, nb::call_guard<ReleaseGil>(),
           "Ops of the group that have not started fail with Cancelled when their turn comes.")
      .def(
          "set_timeout",
          [](Group& self, std::optional<double> seconds) {
            self.set_deadline(seconds ? after(*seconds) : Clock::time_point::max());
          },
          "seconds"_a.none(),
          "The group counts as cancelled so many seconds from now on; None removes the deadline.")
      .def_prop_ro("cancelled", &Group::cancelled, "The group was cancelled, or its deadline has passed.");
  m.def(
      "cancelled",
      [] {
        const RunningOp* running = running_op();
        return running && running->context->cancelled();
      },
      "Inside an op: whether the op's group is cancelled by now, so that it may stop early.");
}

void bind_graphs(nb::module_& m) {
  nb::class_<Binding>(m, "Binding", "A slot with the value that one launch gives it.");
  nb::class_<PythonSlot>(m, "Slot", "A value that the ops of a graph read and that each launch is given.")
      .def_prop_ro(
          "value", [](const PythonSlot& self) { return nb::borrow(self.slot.get()->get()); },
          "The value in this launch; only inside an op of the graph.")
      .def("bind", &bind, "value"_a.none(), "An argument of launch: the value in that launch.");
  nb::class_<PythonGraph>(m, "Graph", "Ops that were captured once and are launched many times.")
      .def(
          "launch",
          [](const PythonGraph& self, nb::args bindings) {
            std::vector<Binding> list;
            for (nb::handle binding : bindings) list.push_back(nb::cast<Binding&>(binding));
            const ReleaseGil released;
            self.graph.launch_with(list);
          },
          nb::sig("def launch(self, *bindings: Binding) -> None"), "Queues the graph's ops as one op.")
      .def(
          "set",
          [](PythonGraph& self, const PythonSlot& slot, nb::object value) {
            self.graph.set(slot.slot, std::make_shared<Reference>(std::move(value)));
          },
          "slot"_a, "value"_a.none(), "The slot's value for all later launches that bind none.")
      .def("__len__", [](const PythonGraph& self) { return self.graph.size(); });
}

void bind_vars(nb::module_& m) {
  nb::class_<PythonVar>(m, "Var", "A handle by which the engine knows a piece of data.")
      .def(
          "wait",
          [](const PythonVar& self, std::optional<double> timeout) {
            return wait_for(*self.engine, self.var, timeout);
          },
          "timeout"_a = nb::none(), "As Engine.wait.")
      .def_prop_ro("engine", [](const PythonVar& self) { return PythonEngine{self.engine}; })
      .def(
          "__eq__",
          [](const PythonVar& self, nb::handle other) {
            return nb::isinstance<PythonVar>(other) && nb::inst_ptr<PythonVar>(other)->var == self.var;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PythonVar& self) { return reinterpret_cast<std::intptr_t>(self.var.state()) >> 4; });
}

nb::object error_of(const PythonEngine& self, nb::handle object) {
  const ErrorReport report = self.engine->error_of(var_of(*self.engine, object));
  return report.exception ? to_python(report.exception) : nb::none();
}

PythonGraph capture(const PythonEngine& self, nb::object fn) {
  const char* name = name_of_function(fn);
  return {self.engine->capture([&] { fn(); }, name, python_place()), self.engine};
}

void bind_engine_class(nb::module_& m) {
  nb::class_<PythonEngine>(m, "Engine", nb::type_slots(engine_slots),
                           "Runs ops: functions with the vars that they read and those that they mutate.")
      .def(
          "__init__",
          [](PythonEngine* self, std::optional<int> workers, std::optional<std::string> scheduler,
             std::optional<std::uint64_t> seed, std::optional<double> watchdog, std::optional<double> spin,
             std::optional<std::size_t> max_ops, std::optional<std::size_t> max_bytes) {
            new (self) PythonEngine(make_engine(
                options_of(workers, std::move(scheduler), seed, watchdog, spin, max_ops, max_bytes)));
          },
          "workers"_a = nb::none(), "scheduler"_a = nb::none(), nb::kw_only(), "seed"_a = nb::none(),
          "watchdog"_a = nb::none(), "spin"_a = nb::none(), "max_ops"_a = nb::none(),
          "max_bytes"_a = nb::none(),
          "What is not given is read from the environment: HEDDLE_WORKERS, HEDDLE_SCHEDULER and so on.")
      .def("new_var",
           [](const PythonEngine& self) {
             return PythonVar{self.engine->new_var(), self.engine};
           })
      .def(
          "wait_all", [](const PythonEngine& self) { wait_all(self.engine); },
          "Blocks until every op pushed so far is done; raises AggregateError with all errors that no wait "
          "has raised.")
      .def(
          "clear_error",
          [](const PythonEngine& self, nb::handle object) {
            const Where where = python_place();
            const Var var = var_of(*self.engine, object);
            const ReleaseGil released;
            self.engine->clear_error(var, where);
          },
          nb::sig("def clear_error(self, var: Var | NDArray) -> None"),
          "Removes the poison of a var or an array.")
      .def("error_of", &error_of, nb::sig("def error_of(self, var: Var | NDArray) -> BaseException | None"),
           "The error that poisons the var or array now. Does not wait.")
      .def("capture", &capture, "fn"_a, nb::sig("def capture(self, fn: Callable[[], object]) -> Graph"),
           "Records what fn() pushes, instead of running it, as a graph.")
      .def(
          "slot",
          [](const PythonEngine& self) {
            return PythonSlot{self.engine->slot<PythonSlotValue>(), self.engine};
          },
          "A value that each launch is given; only inside capture.")
      .def(
          "describe_pending", [](const PythonEngine& self) { return self.engine->describe_pending(); },
          nb::call_guard<ReleaseGil>(), "The ops that run and those that wait, as text.")
      .def(
          "pending_dot", [](const PythonEngine& self) { return self.engine->pending_dot(); },
          nb::call_guard<ReleaseGil>(), "The same as a DOT graph.")
      .def_prop_ro("workers", [](const PythonEngine& self) { return self.engine->workers(); })
      .def_prop_ro("scheduler",
                   [](const PythonEngine& self) {
                     const Scheduler scheduler = self.engine->options().scheduler;
                     return scheduler == Scheduler::naive  ? "naive"
                            : scheduler == Scheduler::fuzz ? "fuzz"
                                                           : "threaded";
                   })
      .def(
          "__enter__",
          [](nb::object self) {
            // Arrays do not keep their engine: one that has arrays lives as long as the process.
            static auto& kept = *new std::vector<std::shared_ptr<Engine>>;
            const std::shared_ptr<Engine>& engine = nb::inst_ptr<PythonEngine>(self)->engine;
            if (std::find(kept.begin(), kept.end(), engine) == kept.end()) kept.push_back(engine);
            scopes.list.push_back(std::make_unique<EngineScope>(*engine));
            return self;
          },
          nb::sig("def __enter__(self) -> Engine"),
          "Arrays that this thread makes in the block belong to this engine.")
      .def(
          "__exit__", [](const PythonEngine&, nb::args) { scopes.list.pop_back(); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def(
          "__eq__",
          [](const PythonEngine& self, nb::handle other) {
            return nb::isinstance<PythonEngine>(other) &&
                   nb::inst_ptr<PythonEngine>(other)->engine.get() == self.engine.get();
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PythonEngine& self) { return reinterpret_cast<std::intptr_t>(self.engine.get()) >> 4; });
}

}  // namespace

PushScope::PushScope(const Engine& engine) {
  if (!running_op() && !check::running_op()) {
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
  if (released_) PyEval_RestoreThread(released_);
}

std::shared_ptr<Engine> borrowed(Engine& engine) { return {std::shared_ptr<void>(), &engine}; }

void default_engine_is_used() { default_is_used = true; }

bool wait_for(Engine& engine, const Var& var, std::optional<double> seconds) {
  const Var held = var;
  const Clock::time_point end = seconds ? after(*seconds) : Clock::time_point::max();
  const bool main = is_main_thread();
  while (true) {
    const Clock::time_point slice = main ? std::min(end, Clock::now() + kSlice) : end;
    {
      const ReleaseGil released;
      if (slice == Clock::time_point::max()) {
        engine.wait(held);
        return true;
      }
      if (engine.wait_until(held, slice)) return true;
    }
    if (main) check_signals();
    if (slice == end) return false;
  }
}

const Var& var_of(const Engine& engine, nb::handle object) {
  const Engine* owner = nullptr;
  const Var* var = nullptr;
  if (nb::isinstance<PythonVar>(object)) {
    owner = nb::inst_ptr<PythonVar>(object)->engine.get();
    var = &nb::inst_ptr<PythonVar>(object)->var;
  } else if (const NDArray* array = array_in(object)) {
    owner = &array->engine();
    var = &array->var();
  }
  if (var && owner != &engine) throw InvalidArgument("a Var or an array of another engine");
  if (var) return *var;
  raise(PyExc_TypeError, std::string("got a ") + kind_of(object) + "; want a Var or an array");
}

void bind_engine(nb::module_& m) {
  bind_groups(m);
  bind_vars(m);
  bind_graphs(m);
  bind_engine_class(m);
  m.def(
      "default_engine",
      [] {
        default_engine_is_used();
        const ReleaseGil released;
        return PythonEngine{borrowed(default_engine())};
      },
      "The process's engine, made at first use.");
  m.def(
      "current_engine",
      [] {
        default_engine_is_used();
        const ReleaseGil released;
        return PythonEngine{borrowed(current_engine())};
      },
      "The engine that new arrays of this thread belong to.");
  m.def("is_capturing", &is_capturing);
  m.def("_shut_down", &shut_down);
}

}  // namespace heddle::python
