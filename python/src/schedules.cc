// Learning rates as functions of the step, clipping of gradients, and moving averages of weights.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/average_weights.h>
#include <heddle/clip_grad.h>
#include <heddle/schedule.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "module.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using PythonAverages = Locked<AverageWeights>;

void bind_schedules(nb::module_& m) {
  m.def(
      "constant_schedule",
      [](double lr) { return in_call("constant_schedule", [&] { return constant_schedule(lr); }); }, "lr"_a,
      "lr at every step.");
  m.def(
      "step_schedule",
      [](double lr, std::int64_t every, double factor) {
        return in_call("step_schedule", [&] { return step_schedule(lr, every, factor); });
      },
      "lr"_a, "every"_a, "factor"_a = 0.1, "Falls by `factor` each `every` steps.");
  m.def(
      "cosine_schedule",
      [](double lr, std::int64_t steps, double final_lr) {
        return in_call("cosine_schedule", [&] { return cosine_schedule(lr, steps, final_lr); });
      },
      "lr"_a, "steps"_a, "final_lr"_a = 0.0, "Half a cosine from lr to final_lr.");
  m.def(
      "cosine_restarts_schedule",
      [](double lr, std::int64_t steps, double final_lr, double factor) {
        return in_call("cosine_restarts_schedule",
                       [&] { return cosine_restarts_schedule(lr, steps, final_lr, factor); });
      },
      "lr"_a, "steps"_a, "final_lr"_a = 0.0, "factor"_a = 1.0,
      "Cosines that begin anew, each `factor` times as long as the one before.");
  m.def(
      "polynomial_schedule",
      [](double lr, std::int64_t steps, double power, double final_lr) {
        return in_call("polynomial_schedule",
                       [&] { return polynomial_schedule(lr, steps, power, final_lr); });
      },
      "lr"_a, "steps"_a, "power"_a = 1.0, "final_lr"_a = 0.0, "From lr to final_lr; power 1 is a line.");
  m.def(
      "one_cycle_schedule",
      [](double max_lr, std::int64_t steps, double rise, double first_divisor, double last_divisor,
         bool linear) {
        const OneCycleOptions options{rise, first_divisor, last_divisor, linear};
        return in_call("one_cycle_schedule", [&] { return one_cycle_schedule(max_lr, steps, options); });
      },
      "max_lr"_a, "steps"_a, "rise"_a = 0.3, "first_divisor"_a = 25.0, "last_divisor"_a = 1e4,
      "linear"_a = false, "Up to max_lr and down to almost 0.");
  m.def(
      "join_schedules",
      [](std::int64_t steps, nb::handle first, nb::handle rest) {
        return in_call("join_schedules", [&] {
          return join_schedules(steps, schedule_of("join_schedules", first),
                                schedule_of("join_schedules", rest));
        });
      },
      "steps"_a, "first"_a, "rest"_a, "`first` for `steps` steps, then `rest` from its step 0.");
  m.def(
      "scale_schedule",
      [](nb::handle schedule, double factor) {
        return in_call("scale_schedule",
                       [&] { return scale_schedule(schedule_of("scale_schedule", schedule), factor); });
      },
      "schedule"_a, "factor"_a, "The rates of `schedule` times `factor`.");
  m.def(
      "warm_up",
      [](std::int64_t steps, nb::handle schedule) {
        return in_call("warm_up", [&] { return warm_up(steps, schedule_of("warm_up", schedule)); });
      },
      "steps"_a, "schedule"_a, "The first `steps` rates of `schedule` times (step + 1) / steps.");
}

void bind_clipping(nb::module_& m) {
  m.def(
      "clip_grad_norm",
      [](const std::vector<Parameter>& parameters, double max_norm, bool refuse_nonfinite) {
        const Where where = python_call_site();
        return in_call("clip_grad_norm", [&] {
          return clip_grad_norm(parameters, max_norm, {.refuse_nonfinite = refuse_nonfinite}, where);
        });
      },
      "parameters"_a, "max_norm"_a, "refuse_nonfinite"_a = false,
      "Scales all gradients to a common 2-norm of max_norm at most; returns the norm before.");
  m.def(
      "clip_grad_value",
      [](const std::vector<Parameter>& parameters, double max_value) {
        const Where where = python_call_site();
        in_call("clip_grad_value", [&] { clip_grad_value(parameters, max_value, where); });
      },
      "parameters"_a, "max_value"_a, "Clips each element of the gradients into [-max_value, max_value].");
}

void bind_averages(nb::module_& m) {
  using State = std::map<std::string, NDArray>;
  const auto swap = [](const PythonAverages& self) {
    const Where where = python_call_site();
    self.call([&](AverageWeights& of) { in_call("swap", [&] { of.swap(where); }); });
  };
  nb::class_<PythonAverages>(
      m, "AverageWeights", "Moving averages of parameters; `with average:` computes with them. Thread-safe.")
      .def(
          "__init__",
          [](PythonAverages* self, const std::vector<Parameter>& parameters, double decay, bool warm_up) {
            const Where where = python_call_site();
            new (self) PythonAverages(in_call("AverageWeights", [&] {
              return std::make_shared<AverageWeights>(parameters, AverageOptions{decay, warm_up}, where);
            }));
          },
          "parameters"_a, "decay"_a = 0.999, "warm_up"_a = false)
      .def(
          "update",
          [](const PythonAverages& self) {
            const Where where = python_call_site();
            self.call([&](AverageWeights& of) { in_call("update", [&] { of.update(where); }); });
          },
          "average += (1 - decay) * (parameter - average): one op for all.")
      .def("swap", swap, "Exchanges the values of parameters and averages.")
      .def_prop_ro("swapped",
                   [](const PythonAverages& self) {
                     return self.call([](AverageWeights& of) { return of.swapped(); });
                   })
      .def("averages",
           [](const PythonAverages& self) {
             return self.call([](AverageWeights& of) { return of.averages(); });
           })
      .def(
          "state",
          [](const PythonAverages& self) {
            return self.call([](AverageWeights& of) { return in_call("state", [&] { return of.state(); }); });
          })
      .def(
          "set_state",
          [](const PythonAverages& self, const State& state) {
            const Where where = python_call_site();
            self.call([&](AverageWeights& of) { in_call("set_state", [&] { of.set_state(state, where); }); });
          },
          "state"_a)
      .def("__enter__",
           [swap](nb::handle self) {
             swap(*nb::inst_ptr<PythonAverages>(self));
             return nb::borrow(self);
           })
      .def("__exit__", [swap](const PythonAverages& self, nb::args) { swap(self); });
}

}  // namespace

Schedule schedule_of(const char* function, nb::handle callable) {
  if (callable.is_none()) return {};
  if (!PyCallable_Check(callable.ptr()))
    refuse_type({function, "schedule"}, callable, "a function of the step");
  auto held = std::make_shared<Reference>(nb::borrow(callable));
  return [held, function](std::int64_t step) {
    const HoldGil gil;
    if (!gil) throw Error("the interpreter has ended");
    return real_argument({function, "what the schedule has returned"}, nb::borrow(held->get())(step));
  };
}

void bind_training(nb::module_& m) {
  bind_schedules(m);
  bind_clipping(m);
  bind_averages(m);
}

}  // namespace heddle::python
