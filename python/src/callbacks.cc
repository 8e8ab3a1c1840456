// Callbacks of fit(): those of the library, and classes of Python.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <heddle/callbacks.h>
#include <heddle/tensor_board.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "fit.h"
#include "objects.h"

namespace heddle::python {

using namespace nb::literals;

class PythonRun {
 public:
  PythonRun(nb::object of_net, nb::object of_trainer)
      : net(std::move(of_net)), trainer(std::move(of_trainer)) {}
  FitRun& get(const char* member) const {
    if (!run) throw Error(std::string("FitRun.") + member + ": the training is over");
    return *run;
  }
  nb::object net, trainer;
  FitRun* run = nullptr;
};

namespace {

thread_local RunScope* innermost = nullptr;

constexpr std::array kEvents{"on_train_begin",    "on_last_step",   "on_train_end", "on_epoch_begin",
                             "on_epoch_end",      "on_batch_begin", "on_batch_end", "on_validation_begin",
                             "on_validation_end", "on_interrupt"};
enum Event {
  train_begin,
  last_step,
  train_end,
  epoch_begin,
  epoch_end,
  batch_begin,
  batch_end,
  validation_begin,
  validation_end,
  interrupt
};

// A callback whose class is Python's. Events that the class does not define cost a test.
struct PythonCallback : Callback {
  NB_TRAMPOLINE(Callback, 1);
  void on_train_begin(FitRun& run) override { call(train_begin, run); }
  void on_last_step(FitRun& run) override { call(last_step, run); }
  void on_train_end(FitRun& run) override { call(train_end, run); }
  void on_epoch_begin(FitRun& run) override { call(epoch_begin, run); }
  void on_batch_begin(FitRun& run) override { call(batch_begin, run); }
  void on_batch_end(FitRun& run) override { call(batch_end, run); }
  void on_validation_begin(FitRun& run) override { call(validation_begin, run); }
  void on_validation_end(FitRun& run) override { call(validation_end, run); }
  void on_interrupt(FitRun& run) override { call(interrupt, run); }
  void on_epoch_end(FitRun& run, const FitValues& values) override { call(epoch_end, run, &values); }
  std::string name() const override {
    const CallsPython calling(false);
    return kind_of(self());
  }
  CallbackState state() const override {
    const CallsPython calling(false);
    CallbackState all;
    for (const auto& [key, value] : dict_of("state")) add_to(all, {"Callback.state", "a name"}, key, value);
    for (const auto& [key, value] : dict_of("state_of_rank")) {
      const std::string word = text_in({"Callback.state_of_rank", "a name"}, key);
      all.of_rank[word] =
          to_array({"Callback.state_of_rank", word.c_str()}, value, std::nullopt, python_call_site());
    }
    return all;
  }
  void set_state(const CallbackState& state) override {
    const CallsPython calling(false);
    nb::dict all;
    for (const auto& [key, value] : state.numbers) all[nb::str(key.data(), key.size())] = value;
    for (const auto& [key, value] : state.texts) {
      const std::size_t end = key.rfind(kKind);
      const nb::str name(key.data(), std::min(end, key.size()));
      all[name] = end == std::string::npos ? nb::object(nb::str(value.data(), value.size()))
                                           : integer_of(key.substr(end + 1), value);
    }
    for (const auto* const arrays : {&state.arrays, &state.of_rank})
      for (const auto& [key, value] : *arrays) all[nb::str(key.data(), key.size())] = wrap(NDArray(value));
    self().attr("set_state")(all);
  }
  void clear_errors() override {
    const CallsPython calling(false);
    self().attr("clear_errors")();
  }
  void clear_errors_of_state() { Callback::clear_errors(); }

 private:
  // Integers are texts, of which no digit is lost, under their names, this and "int" or "bool".
  static constexpr char kKind = '\n';
  static nb::object integer_of(const std::string& kind, const std::string& digits) {
    if (kind == "bool") return nb::bool_(digits != "0");
    PyObject* const number = PyLong_FromString(digits.c_str(), nullptr, 10);
    if (!number) raise_set();
    return nb::steal(number);
  }
  nb::dict dict_of(const char* method) const {
    const nb::object given = self().attr(method)();
    const std::string function = std::string("Callback.") + method;
    if (!PyDict_Check(given.ptr())) refuse_type({function.c_str(), "what it has returned"}, given, "a dict");
    return nb::borrow<nb::dict>(given);
  }
  static void add_to(CallbackState& all, ArgumentOf name, nb::handle key, nb::handle value) {
    const std::string word = text_in(name, key);
    const ArgumentOf of{"Callback.state", word.c_str()};
    if (word.find(kKind) != std::string::npos)
      throw InvalidArgument("Callback.state: a name has a line break; want one without");
    if (const NDArray* const array = array_in(value)) {
      all.arrays[word] = *array;
    } else if (PyUnicode_Check(value.ptr())) {
      all.texts[word] = text_in(of, value);
    } else if (PyBool_Check(value.ptr())) {
      all.texts[word + kKind + "bool"] = value.is(Py_True) ? "1" : "0";
    } else if (nb::hasattr(value, "__dlpack__")) {  // arrays of NumPy, tensors
      all.arrays[word] = to_array(of, value, std::nullopt, python_call_site());
    } else if (PyIndex_Check(value.ptr()) != 0) {
      const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
      if (!number.is_valid()) raise_set();
      all.texts[word + kKind + "int"] = text_in(of, nb::str(number));
    } else if (PyFloat_Check(value.ptr()) || nb::hasattr(value, "__float__")) {
      all.numbers[word] = real_argument(of, value);
    } else {
      refuse_type(of, value, "a number, a text or an array");
    }
  }
  nb::object self() const {
    nb::object object = nb::find(static_cast<const Callback*>(this));
    if (!object.is_valid()) throw Error("Callback: the object of Python is gone");
    return object;
  }
  void call(Event event, FitRun& run, const FitValues* values = nullptr) {
    const bool looks = !has_looked_ || event == train_begin;
    if (!looks && !defines_[event]) return;
    const CallsPython calling(false);
    const nb::object object = self();
    if (looks) look(object);
    if (!defines_[event]) return;
    RunScope::current_run().run = &run;
    const nb::object method = object.attr(kEvents[event]);
    values ? method(RunScope::current(), nb::cast(*values)) : method(RunScope::current());
  }
  // Methods of the class, and what the object itself has under their names.
  void look(const nb::object& object) {
    const nb::handle base = nb::type<Callback>();
    const nb::object own = nb::getattr(object, "__dict__", nb::none());
    for (std::size_t i = 0; i < kEvents.size(); ++i)
      defines_[i] = !nb::getattr(object.type(), kEvents[i]).is(nb::getattr(base, kEvents[i])) ||
                    (!own.is_none() && PyMapping_HasKeyString(own.ptr(), kEvents[i]) != 0);
    has_looked_ = true;
  }
  std::array<bool, kEvents.size()> defines_{};
  bool has_looked_ = false;
};

MonitorMode mode_of(const char* function, const std::string& mode) {
  if (mode == "auto") return MonitorMode::automatic;
  if (mode == "min") return MonitorMode::min;
  if (mode == "max") return MonitorMode::max;
  throw InvalidArgument(std::string(function) + ": mode is '" + mode + "'; want auto, min or max");
}

void later(const PythonRun& self, const std::vector<std::string>& names, nb::object use) {
  if (!PyCallable_Check(use.ptr())) refuse_type({"later", "use"}, use, "a function of the values");
  auto function = std::make_shared<Reference>(std::move(use));
  FitRun& run = self.get("later");
  const ReleaseGil released;
  run.later(names, [function](const FitValues& values) {
    const CallsPython calling(false);
    nb::borrow(function->get())(nb::cast(values));
  });
}

nb::object value_of(const PythonRun& self, const std::string& name) {
  FitRun& run = self.get("value");
  NDArray value;
  {
    const ReleaseGil released;
    value = run.value(name);
  }
  return wrap(std::move(value));
}

template <class Get> auto member(const char* name, Get get) {
  return [name, get](const PythonRun& self) { return get(self.get(name)); };
}

void bind_run(nb::module_& m) {
  nb::class_<PythonRun>(m, "FitRun",
                        "A training that runs, as callbacks see it. On the thread of fit() alone.")
      .def_prop_ro(
          "net", [](const PythonRun& self) { return self.net; }, nb::sig("def net(self) -> Module"))
      .def_prop_ro(
          "trainer", [](const PythonRun& self) { return self.trainer; },
          nb::sig("def trainer(self) -> Trainer"))
      .def_prop_ro("epoch", member("epoch", [](FitRun& run) { return run.epoch(); }),
                   "Of this epoch, from 0.")
      .def_prop_ro("epochs", member("epochs", [](FitRun& run) { return run.epochs(); }))
      .def_prop_ro("batch", member("batch", [](FitRun& run) { return run.batch(); }),
                   "How many batches of this epoch are done.")
      .def_prop_ro("batches", member("batches", [](FitRun& run) { return run.batches(); }),
                   "Of an epoch; -1: not known yet.")
      .def_prop_ro("step", member("step", [](FitRun& run) { return run.step(); }),
                   "How many steps the trainer has done.")
      .def_prop_ro("examples", member("examples", [](FitRun& run) { return run.examples(); }))
      .def_prop_ro("rank", member("rank", [](FitRun& run) { return run.rank(); }))
      .def_prop_ro("ranks", member("ranks", [](FitRun& run) { return run.ranks(); }))
      .def_prop_ro("history", member("history", [](FitRun& run) { return run.history().values; }),
                   "Of the epochs so far.")
      .def_prop_ro("value_names", member("value_names", [](FitRun& run) { return run.value_names(); }))
      .def_prop_ro("stopping", member("stopping", [](FitRun& run) { return run.stopping(); }))
      .def_prop_ro("resumes", member("resumes", [](FitRun& run) { return run.resumes(); }),
                   "Whether fit() was given `resume`; without a file there the run is at its beginning.")
      .def_prop_ro("resumed_from", member("resumed_from", [](FitRun& run) { return run.resumed_from(); }),
                   "The checkpoint that the run goes on from; '': none.")
      .def(
          "has_state",
          [](const PythonRun& self, const Callback& callback) {
            return self.get("has_state").has_state(callback);
          },
          "callback"_a, "Whether the checkpoint had a state of this callback, which is set.")
      .def_prop_ro("saving", member("saving", [](FitRun& run) { return run.saving(); }),
                   "Whether a save is under way.")
      .def("value", &value_of, "name"_a, nb::sig("def value(self, name: str) -> NDArray"),
           "A scalar that nobody waits for: batch_loss, or loss or a metric of the batches of this epoch so "
           "far.")
      .def("later", &later, "names"_a, "use"_a,
           nb::sig("def later(self, names: Sequence[str], use: Callable[[dict[str, float]], Any]) -> None"),
           "Calls use() with the values as of now, between two later steps, when they are computed.")
      .def(
          "stop", [](const PythonRun& self, const std::string& reason) { self.get("stop").stop(reason); },
          "reason"_a = "", "Ends the training after this step, or this epoch.")
      .def(
          "save",
          [](const PythonRun& self, nb::handle path) {
            const std::string to = path_of("save", path);
            self.get("save").save(to);
          },
          "path"_a, nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Saves a checkpoint to resume from, while the training goes on. All ranks call it, at the same "
          "event, "
          "since each gives its part: a call on rank 0 alone waits for ever.")
      .def("finish_saves", [](const PythonRun& self) {
        FitRun& run = self.get("finish_saves");
        const ReleaseGil released;
        return run.finish_saves();
      });
}

// Callback.clear_errors() as classes of Python inherit it, which their own clear_errors() may call.
void clear_errors(Callback& self) {
  const ReleaseGil released;
  auto* const own = dynamic_cast<PythonCallback*>(&self);
  own ? own->clear_errors_of_state() : self.clear_errors();
}

void bind_base(nb::module_& m) {
  nb::class_<Callback, PythonCallback> base(m, "Callback",
                                            "What a program does at certain points of fit(): a class that "
                                            "derives from it defines some of the methods.");
  base.def(nb::init<>());
  for (const char* event : kEvents) {
    if (std::string(event) == "on_epoch_end") {
      base.def(
          event, [](Callback&, const PythonRun&, const FitValues&) {}, "run"_a, "values"_a);
    } else {
      base.def(
          event, [](Callback&, const PythonRun&) {}, "run"_a);
    }
  }
  base.def(
          "state", [](Callback&) { return nb::dict(); }, nb::sig("def state(self) -> dict[str, Any]"),
          "Numbers, texts and arrays that a resumed run gives to set_state(), arrays as NDArrays. The same "
          "on "
          "all ranks.")
      .def(
          "state_of_rank", [](Callback&) { return nb::dict(); },
          nb::sig("def state_of_rank(self) -> dict[str, Any]"),
          "Arrays of which each rank has its own, in what set_state() gets too.")
      .def(
          "set_state", [](Callback&, const nb::dict&) {}, "state"_a,
          nb::sig("def set_state(self, state: dict[str, Any]) -> None"))
      .def("clear_errors", &clear_errors,
           "Called when fit() has refused a batch, before its error is raised: clears the errors of the "
           "arrays of state(), and waits for them. Others, which on_batch_end has changed, are for the "
           "class.");
}

void make_checkpoint(ModelCheckpoint* self, nb::handle path, const std::string& monitor,
                     const std::string& mode, std::int64_t every_epochs, std::int64_t every_steps,
                     std::int64_t keep, bool on_interrupt) {
  new (self) ModelCheckpoint(path_of("ModelCheckpoint", path), {.monitor = monitor,
                                                                .mode = mode_of("ModelCheckpoint", mode),
                                                                .every_epochs = every_epochs,
                                                                .every_steps = every_steps,
                                                                .keep = keep,
                                                                .on_interrupt = on_interrupt});
}

// Writes to sys.stdout, which a notebook shows.
Progress make_progress(int lines) {
  const bool terminal = [] {
    const nb::object out = nb::module_::import_("sys").attr("stdout");
    return !out.is_none() && nb::hasattr(out, "isatty") && nb::cast<bool>(out.attr("isatty")());
  }();
  const auto write = [](std::string_view text) {
    const CallsPython calling(false);
    const nb::object out = nb::module_::import_("sys").attr("stdout");
    if (out.is_none()) return;
    out.attr("write")(nb::str(text.data(), text.size()));
    out.attr("flush")();
  };
  return Progress({.write = write, .terminal = terminal, .lines = lines});
}

void bind_library(nb::module_& m) {
  nb::class_<Progress, Callback>(m, "Progress", nb::is_final(),
                                 "Prints epoch, batch, speed, time left and values.")
      .def(
          "__init__", [](Progress* self, int lines) { new (self) Progress(make_progress(lines)); },
          "lines"_a = 5);
  nb::class_<CsvLogger, Callback>(m, "CsvLogger", nb::is_final(), "Writes a line for each epoch to a file.")
      .def(
          "__init__",
          [](CsvLogger* self, nb::handle path) { new (self) CsvLogger(path_of("CsvLogger", path)); },
          "path"_a, nb::sig("def __init__(self, path: str | os.PathLike[str]) -> None"));
  nb::class_<TensorBoard, Callback>(m, "TensorBoard", nb::is_final(),
                                    "Writes the values of each epoch for TensorBoard.")
      .def(
          "__init__",
          [](TensorBoard* self, nb::handle path, std::int64_t every_steps, std::int64_t histograms,
             bool graph) {
            new (self) TensorBoard(path_of("TensorBoard", path), {every_steps, histograms, graph});
          },
          "path"_a, "every_steps"_a = 0, "histograms"_a = 0, "graph"_a = false,
          nb::sig(
              "def __init__(self, path: str | os.PathLike[str], every_steps: int = 0, histograms: int = 0, "
              "graph: bool = False) -> None"));
  nb::class_<ModelCheckpoint, Callback>(
      m, "ModelCheckpoint", nb::is_final(),
      "Saves checkpoints: {epoch}, {step} and {val_loss} in the path are numbers.")
      .def("__init__", &make_checkpoint, "path"_a, "monitor"_a = "", "mode"_a = "auto", "every_epochs"_a = 1,
           "every_steps"_a = 0, "keep"_a = 0, "on_interrupt"_a = true,
           nb::sig("def __init__(self, path: str | os.PathLike[str], monitor: str = '', mode: str = 'auto', "
                   "every_epochs: int = 1, every_steps: int = 0, keep: int = 0, on_interrupt: bool = True) "
                   "-> None"));
  nb::class_<EarlyStopping, Callback>(m, "EarlyStopping", nb::is_final(),
                                      "Ends the training when a value gets no better.")
      .def(
          "__init__",
          [](EarlyStopping* self, const std::string& monitor, const std::string& mode, double min_delta,
             std::int64_t patience, bool restore_best, std::optional<double> baseline) {
            new (self) EarlyStopping({.monitor = monitor,
                                      .mode = mode_of("EarlyStopping", mode),
                                      .min_delta = min_delta,
                                      .patience = patience,
                                      .restore_best = restore_best,
                                      .baseline = baseline});
          },
          "monitor"_a = "val_loss", "mode"_a = "auto", "min_delta"_a = 0.0, "patience"_a = 0,
          "restore_best"_a = false, "baseline"_a = nb::none());
  nb::class_<LearningRateScheduler, Callback>(
      m, "LearningRateScheduler", nb::is_final(),
      "Sets the rate of each epoch to schedule(epoch, rate). Not beside a "
      "ReduceOnPlateau.")
      .def(
          "__init__",
          [](LearningRateScheduler* self, nb::object schedule) {
            if (!PyCallable_Check(schedule.ptr()))
              refuse_type({"LearningRateScheduler", "schedule"}, schedule, "a function of epoch and rate");
            auto function = std::make_shared<Reference>(std::move(schedule));
            new (self) LearningRateScheduler([function](std::int64_t epoch, double lr) {
              const CallsPython calling(false);
              return real_argument({"LearningRateScheduler", "what the schedule has returned"},
                                   nb::borrow(function->get())(epoch, lr));
            });
          },
          "schedule"_a, nb::sig("def __init__(self, schedule: Callable[[int, float], float]) -> None"));
  nb::class_<ReduceOnPlateau, Callback>(m, "ReduceOnPlateau", nb::is_final(),
                                        "Multiplies rates by a factor when a value gets no better. One in a "
                                        "fit(), not beside a LearningRateScheduler.")
      .def(
          "__init__",
          [](ReduceOnPlateau* self, const std::string& monitor, const std::string& mode, double factor,
             double min_delta, double min_lr, std::int64_t patience, std::int64_t cooldown) {
            new (self) ReduceOnPlateau({.monitor = monitor,
                                        .mode = mode_of("ReduceOnPlateau", mode),
                                        .factor = factor,
                                        .min_delta = min_delta,
                                        .min_lr = min_lr,
                                        .patience = patience,
                                        .cooldown = cooldown});
          },
          "monitor"_a = "val_loss", "mode"_a = "auto", "factor"_a = 0.1, "min_delta"_a = 1e-4,
          "min_lr"_a = 0.0, "patience"_a = 10, "cooldown"_a = 0);
}

}  // namespace

RunScope::RunScope(nb::object net, nb::object trainer)
    : object_(nb::cast(PythonRun(std::move(net), std::move(trainer)))),
      outer_(std::exchange(innermost, this)) {}
RunScope::~RunScope() {
  nb::cast<PythonRun&>(object_).run = nullptr;
  innermost = outer_;
}
nb::object RunScope::current() { return innermost->object_; }
PythonRun& RunScope::current_run() { return nb::cast<PythonRun&>(innermost->object_); }

void bind_callbacks(nb::module_& m) {
  bind_run(m);
  bind_base(m);
  bind_library(m);
}

}  // namespace heddle::python
