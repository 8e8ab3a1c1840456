// The Python classes of optimizers and of the trainer.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "keys.h"
#include "module.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using State = std::map<std::string, NDArray>;

void update(const PythonOptimizer& self, nb::handle key, const NDArray& weight, nb::handle grad,
            std::optional<double> lr, double grad_scale, double decay_scale) {
  const Where where = python_call_site();
  const Key of = to_key("update", key);
  const UpdateOptions options{.lr = lr, .grad_scale = grad_scale, .decay_scale = decay_scale};
  if (nb::isinstance<RowSparse>(grad)) {
    const RowSparse rows = *nb::inst_ptr<RowSparse>(grad);
    return self.call([&](Optimizer& optimizer) {
      in_call("update", [&] { optimizer.update(of, weight, rows, options, where); });
    });
  }
  const NDArray made = to_array({"update", "grad"}, grad, std::nullopt, where);
  const NDArray whole = beside_on_gpu(&weight, grad, made, where);
  self.call([&](Optimizer& optimizer) {
    in_call("update", [&] { optimizer.update(of, weight, whole, options, where); });
  });
}

// The methods that optimizers and trainers share. Reading and setting the state may block.
template <class T> void bind_state(nb::class_<Locked<T>>& type) {
  type.def("state",
           [](const Locked<T>& self) {
             return self.call_interruptibly("state", [](T& of) { return of.state(); });
           })
      .def(
          "set_state",
          [](const Locked<T>& self, const State& state) {
            self.call_interruptibly(
                "set_state", [state, where = python_call_site()](T& of) { of.set_state(state, where); });
          },
          "state"_a)
      .def(
          "clear_errors",
          [](const Locked<T>& self) {
            self.call_interruptibly("clear_errors",
                                    [where = python_call_site()](T& of) { of.clear_errors(where); });
          },
          "To go on after an error: removes the poison of the state, a trainer's of its parameters too, and "
          "drops a "
          "trainer's gradients.");
}

void bind_optimizer(nb::module_& m) {
  nb::class_<PythonOptimizer> type(
      m, "Optimizer", "Keeps the state of any number of weights, each under a key. Thread-safe.");
  type.def(
          "__init__",
          [](PythonOptimizer* self, const std::string& name, const nb::kwargs& params) {
            new (self) PythonOptimizer(std::shared_ptr<Optimizer>(in_call(
                "Optimizer", [&] { return create_optimizer(name, params_of("Optimizer", params)); })));
          },
          "name"_a, "params"_a, nb::sig("def __init__(self, name: str, **params: float) -> None"),
          "By name, such as adamw (see optimizers()); params that differ from the defaults.")
      .def_prop_ro("name", [](const PythonOptimizer& self) { return self.object()->name(); })
      .def_prop_ro("params", [](const PythonOptimizer& self) { return self.object()->params(); })
      .def("update", &update, "key"_a, "weight"_a, "grad"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
           "decay_scale"_a = 1.0,
           nb::sig("def update(self, key: int | str, weight: NDArray, grad: NDArray | RowSparse, lr: float | "
                   "None = None, grad_scale: float = 1.0, decay_scale: float = 1.0) -> None"),
           "Pushes one op that updates the weight in place.");
  bind_state(type);
  m.def(
      "optimizers",
      [] {
        std::map<std::string, OptimizerParams> all;
        for (const OptimizerInfo& info : heddle::optimizers())
          for (const OptimizerInfo::Param& param : info.params) all[info.name][param.name] = param.value;
        return all;
      },
      "The names of all optimizers, with their parameters and defaults.");
}

// A dict such as {"pattern": "*bias", "weight_decay": 0}.
ParameterGroup group_of(const nb::dict& given) {
  ParameterGroup group;
  for (auto [name, value] : given) {
    const std::string key = text_in({"Trainer", "the name in a group"}, name);
    if (key == "pattern") {
      group.pattern = text_in({"Trainer", "pattern"}, value);
    } else if (key == "max_axes") {
      constexpr std::int64_t kMany = 1000;  // more axes than an array has
      group.max_axes =
          static_cast<int>(std::clamp<std::int64_t>(int_argument({"Trainer", "max_axes"}, value), -1, kMany));
    } else if (key == "lr") {
      group.lr = real_argument({"Trainer", "lr"}, value);
    } else if (key == "weight_decay") {
      group.weight_decay = real_argument({"Trainer", "weight_decay"}, value);
    } else {
      throw InvalidArgument("Trainer: a group has '" + key +
                            "'; it may have pattern, max_axes, lr and weight_decay");
    }
  }
  return group;
}

void make_trainer(PythonTrainer* self, const std::vector<Parameter>& parameters, const std::string& optimizer,
                  const OptimizerParams& params, nb::handle schedule, const PythonStore* store,
                  const std::vector<nb::dict>& groups, const PythonLossScaler* scaler) {
  TrainerOptions options{
      .optimizer = optimizer, .params = params, .schedule = schedule_of("Trainer", schedule)};
  if (store) options.store = store->object();
  if (scaler) options.scaler = *scaler->object();
  for (const nb::dict& group : groups)
    options.groups.push_back(in_call("Trainer", [&] { return group_of(group); }));
  const std::shared_ptr<ObjectMutex> mutex = store ? store->mutex() : std::make_shared<ObjectMutex>();
  HeldLock::refuse(*mutex, "Trainer");
  auto trainer = interruptibly([parameters, options, mutex, where = python_call_site()]() mutable {
    const std::lock_guard guard(*mutex);
    const HeldLock held(*mutex);
    return in_call("Trainer", [&] {
      return std::make_shared<Trainer>(std::move(parameters), std::move(options), where);
    });
  });
  new (self) PythonTrainer(std::move(trainer), mutex);
}

// A captured step whose function is Python's. What it returns reaches the graphs as a list of arrays: none for None, the
// one for an array, and for a list or tuple an undefined array before its items.
class PythonCapturedStep {
 public:
  PythonCapturedStep(const PythonTrainer& trainer, nb::object function, Where where)
      : trainer_(trainer),
        function_(std::make_shared<Reference>(std::move(function))),
        step_(
            *trainer.object(), [this](const std::vector<NDArray>& batch) { return call_function(batch); },
            where) {}

  PyObject* function() const { return function_->get(); }
  void drop_function() { *function_ = Reference(); }
  // Calls function(step) under the trainer's lock, without the GIL.
  template <class Function> auto locked(Function&& function) {
    return trainer_.call([&](Trainer&) { return function(step_); });
  }

  nb::object call(const nb::args& arguments) {
    const Where where = python_call_site();
    std::vector<NDArray> batch;
    for (const nb::handle one : arguments)
      batch.push_back(to_array({"CapturedStep", "an argument"}, one, std::nullopt, where));
    std::vector<NDArray> results = locked([&](CapturedStep& step) { return step.run(batch, where); });
    if (results.empty()) return nb::none();
    if (results[0].defined()) return wrap(std::move(results[0]));
    nb::list all;
    for (std::size_t i = 1; i < results.size(); ++i)
      all.append(results[i].defined() ? wrap(std::move(results[i])) : nb::none());
    return nb::tuple(all);
  }

 private:
  std::vector<NDArray> call_function(const std::vector<NDArray>& batch) {
    const CallsPython calling(false);
    if (!function()) throw Error("CapturedStep: called while it is being collected");
    nb::list arguments;
    for (const NDArray& one : batch) arguments.append(wrap(NDArray(one)));
    const nb::object result = nb::borrow(function())(*nb::tuple(arguments));
    if (result.is_none()) return {};
    if (const NDArray* const one = array_in(result)) return {*one};
    if (!PyList_Check(result.ptr()) && !PyTuple_Check(result.ptr()))
      refuse_type({"CapturedStep", "what the function has returned"}, result, kResults);
    std::vector<NDArray> all(1);
    for (const nb::handle item : result) {
      const NDArray* const array = array_in(item);
      if (!array && !item.is_none())
        refuse_type({"CapturedStep", "what the function has returned"}, item, kResults);
      all.push_back(array ? *array : NDArray());
    }
    return all;
  }

  static constexpr const char* kResults = "an NDArray, a list or tuple of them, or None";
  PythonTrainer trainer_;
  std::shared_ptr<Reference> function_;
  CapturedStep step_;
};

PythonCapturedStep* capture(const PythonTrainer& self, nb::object step) {
  if (!PyCallable_Check(step.ptr())) refuse_type({"capture", "step"}, step, "a function of the batch");
  return new PythonCapturedStep(self, std::move(step), python_call_site());
}

// For the collector of cycles: the function may refer to an object that holds the step.
int visit_step(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<PythonCapturedStep>(self)->function());
  return 0;
}

int clear_step(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PythonCapturedStep>(self)->drop_function();
  return 0;
}

const PyType_Slot step_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_step)},
                                  {Py_tp_clear, reinterpret_cast<void*>(clear_step)},
                                  {0, nullptr}};

void bind_captured_step(nb::module_& m) {
  nb::class_<PythonCapturedStep>(
      m, "CapturedStep", nb::type_slots(step_slots),
      "A training step that Trainer.capture() has made. Called as the function, with arrays. Thread-safe: it "
      "has its trainer's lock.")
      .def("__call__", &PythonCapturedStep::call, "batch"_a,
           nb::sig("def __call__(self, *batch: ArrayLike) -> Any"),
           "Runs the step for a batch, and returns copies of what the function returns.")
      .def(
          "reset", [](PythonCapturedStep& self) { self.locked([](CapturedStep& step) { step.reset(); }); },
          "Forgets all graphs: after a change, in what the function reads, that calls do not see.")
      .def_prop_ro("graphs",
                   [](PythonCapturedStep& self) {
                     return self.locked([](const CapturedStep& step) { return step.graphs(); });
                   })
      .def_prop_ro("captures", [](PythonCapturedStep& self) {
        return self.locked([](const CapturedStep& step) { return step.captures(); });
      });
}

void step(const PythonTrainer& self, nb::handle grad_scale) {
  const Where where = python_call_site();
  if (const NDArray* const array = array_in(grad_scale)) {
    const NDArray scale = *array;
    return self.call([&](Trainer& trainer) { in_call("step", [&] { trainer.step(scale, where); }); });
  }
  const double scale = real_argument({"step", "grad_scale"}, grad_scale);
  self.call([&](Trainer& trainer) { in_call("step", [&] { trainer.step(scale, where); }); });
}

void bind_loss_scaler(nb::module_& m) {
  nb::class_<PythonLossScaler> type(
      m, "LossScaler",
      "Keeps small gradients of f16 above its smallest number: backward(scaler.scale(loss)), and "
      "Trainer(..., scaler=scaler). A step whose gradients have inf or NaN changes nothing.");
  type.def(
          "__init__",
          [](PythonLossScaler* self, double scale, double growth, double backoff, std::int64_t interval) {
            const Where where = python_call_site();
            const LossScalerOptions options{scale, growth, backoff, interval};
            new (self) PythonLossScaler(
                in_call("LossScaler", [&] { return std::make_shared<LossScaler>(options, where); }));
          },
          "scale"_a = 65536.0, "growth"_a = 2.0, "backoff"_a = 0.5, "interval"_a = 2000)
      .def(
          "scale",
          [](const PythonLossScaler& self, const NDArray& loss) {
            const Where where = python_call_site();
            return wrap(self.call(
                [&](LossScaler& of) { return in_call("scale", [&] { return of.scale(loss, where); }); }));
          },
          "loss"_a, nb::sig("def scale(self, loss: NDArray) -> NDArray"), "The loss times the scale, in f32.")
      .def(
          "unscale",
          [](const PythonLossScaler& self, const std::vector<Parameter>& parameters) {
            const Where where = python_call_site();
            self.call([&](LossScaler& of) { in_call("unscale", [&] { of.unscale(parameters, where); }); });
          },
          "parameters"_a, nb::sig("def unscale(self, parameters: Sequence[Parameter]) -> None"),
          "Divides the gradients by the scale, for clip_grad_norm() before Trainer.step().")
      .def_prop_ro(
          "current",
          [](const PythonLossScaler& self) {
            return wrap(self.call([](LossScaler& of) { return of.current(); }));
          },
          nb::sig("def current(self) -> NDArray"), "The scale.")
      .def_prop_ro(
          "skipped",
          [](const PythonLossScaler& self) {
            return wrap(self.call([](LossScaler& of) { return of.skipped(); }));
          },
          nb::sig("def skipped(self) -> NDArray"), "How many steps have changed nothing.");
  bind_state(type);
}

void bind_trainer(nb::module_& m) {
  nb::class_<PythonTrainer> type(
      m, "Trainer", "Parameters, an optimizer in a store, and a learning rate for every step. Thread-safe.");
  type.def("__init__", &make_trainer, "parameters"_a, "optimizer"_a = "sgd",
           "params"_a = std::map<std::string, double>{}, "schedule"_a = nb::none(), "store"_a = nb::none(),
           "groups"_a = std::vector<nb::dict>{}, "scaler"_a = nb::none())
      .def("step", &step, "grad_scale"_a = 1.0,
           nb::sig("def step(self, grad_scale: float | NDArray = 1.0) -> None"),
           "Updates every parameter by its gradient, and clears the gradients. A scale that is an array, one "
           "element of f32 "
           "or f64, is read when the updates run: in a captured step it may change from launch to launch.")
      .def(
          "capture", &capture, "step"_a,
          nb::sig("def capture(self, step: Callable[..., Any]) -> CapturedStep"),
          "A step that runs as a captured graph: step(*batch) computes a loss, and calls backward() and this "
          "trainer's step(). For each combination of shapes the first call runs it as it is, the second "
          "captures it, "
          "and later ones launch the graph without calling it.")
      .def_prop_ro("steps",
                   [](const PythonTrainer& self) {
                     return self.call([](Trainer& trainer) { return trainer.steps(); });
                   })
      .def_prop_ro(
          "learning_rate",
          [](const PythonTrainer& self) {
            return self.call([](Trainer& trainer) { return trainer.learning_rate(); });
          },
          "Of the next step.");
  bind_state(type);
}

}  // namespace

OptimizerParams params_of(const char* function, const nb::kwargs& kwargs) {
  OptimizerParams params;
  for (auto [name, value] : kwargs) {
    const std::string key = text_in({function, "the name of a parameter"}, name);
    params[key] = real_argument({function, key.c_str()}, value);
  }
  return params;
}

void bind_trainers(nb::module_& m) {
  bind_optimizer(m);
  bind_loss_scaler(m);
  bind_captured_step(m);
  bind_trainer(m);
}

}  // namespace heddle::python
