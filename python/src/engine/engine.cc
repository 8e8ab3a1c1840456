// The Python classes Engine and Var, waits for ops, and the end of the process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <heddle/check.h>
#include <heddle/interrupt_check.h>
#include <heddle/ndarray.h>
#include <heddle/var_use.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/graphs.h"
#include "engine/interruptibly.h"
#include "engine/python_op.h"
#include "holders.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Clock = std::chrono::steady_clock;

// The engines made by Python, which the end of the process waits for, like the default engine if it is used.
// Guarded by the GIL.
std::vector<std::weak_ptr<Engine>>& engines() {
  static auto& list = *new std::vector<std::weak_ptr<Engine>>;
  return list;
}
bool default_is_used = false;
std::atomic<int> deletions{0};  // number of engines that threads of destroy() are destroying

// Destroys an engine when its last reference ends. Inside an op a new thread does this: the destructor waits
// for all ops, so the op would wait for itself.
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
      refuse_value({"Engine", "scheduler"}, "'" + *scheduler + "'", "threaded, naive or fuzz");
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

// Lets Ctrl-C interrupt the main thread while it waits in C++ code, for example while a push waits for room.
void look_for_signals_in_waits() {
  if (!is_main_thread()) return;
  set_interrupt_check([] {
    const HoldGil gil;
    if (gil) check_signals();
  });
}

PythonEngine make_engine(const EngineOptions& options) {
  Engine* made;
  {
    const ReleaseGil released;
    made = new Engine(options);
  }
  engine_was_made();
  look_for_signals_in_waits();
  std::shared_ptr<Engine> engine(made, destroy);
  std::erase_if(engines(), [](const std::weak_ptr<Engine>& old) { return old.expired(); });
  engines().push_back(engine);
  return {engine};
}

constexpr Arguments<2> kWait{{"var", "timeout"}, 2, 1};

PyObject* wait(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const auto [object, timeout] = kWait.take("wait", args, count, keywords);
    const std::shared_ptr<Engine> engine = nb::inst_ptr<PythonEngine>(self)->engine;
    std::optional<double> seconds;
    if (timeout && timeout != Py_None) seconds = real_argument({"wait", "timeout"}, timeout);
    const Var& var = var_of("wait", *engine, object);
    return PyBool_FromLong(wait_for(*engine, var, seconds));
  });
}

void wait_all(const std::shared_ptr<Engine>& engine) {
  interruptibly([engine] { engine->wait_all(); });
}

// While this object exists, the end of the process waits for ops. If that takes long, a note with the ops is
// printed once.
class PendingNote {
 public:
  explicit PendingNote(std::shared_ptr<Engine> engine)
      : thread_([this, engine = std::move(engine)] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, kLong, [this] { return over_; })) return;
          std::fprintf(
              stderr,
              "heddle: the end of the process waits for ops; Ctrl-C drops those that have not started. %s\n",
              engine->describe_pending().c_str());
        }) {}
  ~PendingNote() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  PendingNote(const PendingNote&) = delete;
  PendingNote& operator=(const PendingNote&) = delete;

 private:
  static constexpr std::chrono::seconds kLong{3};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// The first step of the process's end: waits for all ops, prints errors that nobody has seen, and keeps ops
// from calling Python from then on.
void shut_down() {
  std::vector<std::shared_ptr<Engine>> all;
  for (const std::weak_ptr<Engine>& engine : engines()) {
    if (std::shared_ptr<Engine> living = engine.lock()) all.push_back(std::move(living));
  }
  if (default_is_used) all.push_back(non_owning(default_engine()));
  for (const std::shared_ptr<Engine>& engine : all) {
    try {
      const PendingNote note(engine);
      wait_all(engine);
    } catch (const AggregateError& error) {
      for (const ErrorReport& report : error.reports()) {
        if (!was_raised(report.exception)) PySys_WriteStderr("heddle: %s\n", report.to_string().c_str());
      }
    } catch (const Error&) {  // this process is the child of a fork, where the engine cannot wait
    } catch (nb::python_error& interrupted) {
      close_interpreter();  // precedes the message, so that no op calls a Python function any more
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
  fail_held_completions();
}

// The engines whose `with` blocks a thread is in. The blocks may end in any order if coroutines of the thread
// have entered them.
struct Entered {
  std::vector<std::shared_ptr<Engine>> list;
  std::optional<EngineScope> scope;  // makes list.back() the current engine

  void enter(std::shared_ptr<Engine> engine) {
    list.push_back(std::move(engine));
    use_last();
  }
  bool leave(const std::shared_ptr<Engine>& engine) {
    const auto at = std::find(list.rbegin(), list.rend(), engine);
    if (at == list.rend()) return false;
    list.erase(std::next(at).base());
    use_last();
    return true;
  }

 private:
  void use_last() {
    scope.reset();
    if (!list.empty()) scope.emplace(*list.back());
  }
};
thread_local Entered entered;

PyMethodDef engine_methods[] = {
    {"push", as_function(push), METH_FASTCALL | METH_KEYWORDS,
     "push($self, fn, *, read=(), mutate=(), name=None, priority=0, group=None, skipped=None, "
     "bytes=0)\n--\n\n"
     "Queues fn() as an op and returns. read and mutate: Vars and arrays. An exception out of fn poisons "
     "what "
     "the op mutates. skipped(exception) is called if the op is not going to run. bytes: what the op holds "
     "until it has ended, for max_bytes."},
    {"push_async", as_function(push_async), METH_FASTCALL | METH_KEYWORDS,
     "push_async($self, fn, *, read=(), mutate=(), name=None, priority=0, group=None, skipped=None, "
     "bytes=0)\n"
     "--\n\n"
     "Queues fn(completion) as an op that ends when completion.done() or completion.fail(exception) is "
     "called, on "
     "any thread. It keeps no worker meanwhile. Otherwise as push."},
    {"_push_for_submit", as_function(push_for_submit), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"wait", as_function(wait), METH_FASTCALL | METH_KEYWORDS,
     "wait($self, var, timeout=None)\n--\n\n"
     "Blocks until every op pushed so far that mutates the var or array is done; raises the error that "
     "poisons it. False "
     "if that took longer than `timeout` seconds."},
    {nullptr, nullptr, 0, nullptr}};
const PyType_Slot engine_slots[] = {{Py_tp_methods, engine_methods}, {0, nullptr}};

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
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PythonVar& self) { return reinterpret_cast<std::intptr_t>(self.var.state()) >> 4; });
}

nb::object error_of(const PythonEngine& self, nb::handle object) {
  const ErrorReport report = self.engine->error_of(var_of("error_of", *self.engine, object));
  return report.exception ? to_python(report) : nb::none();
}

PythonGraph capture(const PythonEngine& self, nb::object fn) {
  if (!PyCallable_Check(fn.ptr())) refuse_type({"capture", "fn"}, fn, "what is callable");
  const CallsPython calling;
  const char* name = name_of_function(fn);
  return {self.engine->capture([&] { fn(); }, name, python_call_site()), self.engine};
}

using EngineClass = nb::class_<PythonEngine>;

void bind_ops(EngineClass& type) {
  type.def(
          "__init__",
          [](PythonEngine* self, std::optional<int> workers, std::optional<std::string> scheduler,
             std::optional<std::uint64_t> seed, std::optional<double> watchdog, std::optional<double> spin,
             std::optional<std::size_t> max_ops, std::optional<std::size_t> max_bytes) {
            new (self) PythonEngine(in_call("Engine", [&] {
              return make_engine(
                  options_of(workers, std::move(scheduler), seed, watchdog, spin, max_ops, max_bytes));
            }));
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
            const Where where = python_call_site();
            const Var var = var_of("clear_error", *self.engine, object);
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
          "A value that each launch is given; only inside capture.");
}

void bind_diagnostics(EngineClass& type) {
  type.def(
          "describe_pending", [](const PythonEngine& self) { return self.engine->describe_pending(); },
          nb::call_guard<ReleaseGil>(), "The ops that run and those that wait, as text.")
      .def(
          "pending_dot", [](const PythonEngine& self) { return self.engine->pending_dot(); },
          nb::call_guard<ReleaseGil>(), "The same as a DOT graph.")
      .def_prop_ro("workers", [](const PythonEngine& self) { return self.engine->workers(); })
      .def_prop_ro("scheduler", [](const PythonEngine& self) {
        const Scheduler scheduler = self.engine->options().scheduler;
        return scheduler == Scheduler::naive ? "naive" : scheduler == Scheduler::fuzz ? "fuzz" : "threaded";
      });
}

void bind_scope(EngineClass& type) {
  type.def(
          "__enter__",
          [](nb::object self) {
            // An engine whose `with` block was entered is never destroyed: arrays were made on it, and arrays
            // do not keep their engine alive.
            static auto& kept = *new std::vector<std::shared_ptr<Engine>>;
            const std::shared_ptr<Engine>& engine = nb::inst_ptr<PythonEngine>(self)->engine;
            if (std::find(kept.begin(), kept.end(), engine) == kept.end()) kept.push_back(engine);
            entered.enter(engine);
            return self;
          },
          nb::sig("def __enter__(self) -> Engine"),
          "Arrays that this thread makes in the block belong to this engine.")
      .def(
          "__exit__",
          [](const PythonEngine& self, nb::args) {
            if (!entered.leave(self.engine))
              raise(PyExc_RuntimeError, "Engine.__exit__: this thread has not entered the engine");
          },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def(
          "__eq__",
          [](const PythonEngine& self, nb::handle other) {
            return nb::isinstance<PythonEngine>(other) &&
                   nb::inst_ptr<PythonEngine>(other)->engine.get() == self.engine.get();
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PythonEngine& self) { return reinterpret_cast<std::intptr_t>(self.engine.get()) >> 4; });
}

void bind_engine_class(nb::module_& m) {
  EngineClass type(m, "Engine", nb::type_slots(engine_slots),
                   "Runs ops: functions with the vars that they read and those that they mutate.");
  bind_ops(type);
  bind_diagnostics(type);
  bind_scope(type);
}

}  // namespace

std::shared_ptr<Engine> non_owning(Engine& engine) { return {std::shared_ptr<void>(), &engine}; }

void default_engine_is_used() { default_is_used = true; }

std::shared_ptr<Engine> entered_engine() { return entered.list.empty() ? nullptr : entered.list.back(); }

Clock::time_point after(ArgumentOf of, double seconds) {
  constexpr double kLongest = 1e9;
  if (std::isnan(seconds)) refuse_value(of, "nan", "seconds");
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest)));
}

namespace {

bool waited(Engine& engine, const Var& var, Clock::time_point end) {
  try {
    const ReleaseGil released;
    if (end != Clock::time_point::max()) return engine.wait_until(var, end);
    engine.wait(var);
    return true;
  } catch (const Error&) {
    rethrow_with_op(engine, var);
  } catch (const std::exception&) {  // the error of an op may be an exception of the standard library
    rethrow_with_op(engine, var);
  }
}

}  // namespace

bool wait_for(Engine& engine, const Var& var, std::optional<double> seconds) {
  const Clock::time_point end = seconds ? after({"wait", "timeout"}, *seconds) : Clock::time_point::max();
  if (is_idle(var)) return true;
  const Var held = var;
  const bool main = is_main_thread();
  while (true) {
    const Clock::time_point slice = main ? std::min(end, Clock::now() + kSlice) : end;
    if (waited(engine, held, slice)) return true;
    if (main) check_signals();
    if (slice == end) return false;
  }
}

const Var& var_of(const char* function, const Engine& engine, nb::handle object) {
  const Engine* owner = nullptr;
  const Var* var = nullptr;
  if (nb::isinstance<PythonVar>(object)) {
    owner = nb::inst_ptr<PythonVar>(object)->engine.get();
    var = &nb::inst_ptr<PythonVar>(object)->var;
  } else if (const NDArray* array = array_in(object)) {
    owner = &array->engine();
    var = &array->var();
  }
  const ArgumentOf of{function, "var"};
  if (!var) refuse_type(of, object, "a Var or an array");
  if (owner != &engine) refuse_value(of, "of another engine", "a Var or an array of this one");
  return *var;
}

void bind_engine(nb::module_& m) {
  bind_vars(m);
  bind_graphs(m);
  bind_completion(m);
  bind_engine_class(m);
  look_for_signals_in_waits();
  m.def(
      "default_engine",
      [] {
        default_engine_is_used();
        const ReleaseGil released;
        return PythonEngine{non_owning(default_engine())};
      },
      "The process's engine, made at first use.");
  m.def(
      "current_engine",
      [] {
        default_engine_is_used();
        const ReleaseGil released;
        return PythonEngine{non_owning(current_engine())};
      },
      "The engine that new arrays of this thread belong to.");
  m.def("is_capturing", &is_capturing);
  m.def("_shut_down", &shut_down);
}

}  // namespace heddle::python
