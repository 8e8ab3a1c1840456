// fit(), evaluate(), predict() and CheckpointWriter for Python; heddle/_fit.py has the functions that users call.
#include "fit.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <heddle/fit.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "module_calls.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using ArrayList = std::vector<NDArray>;

// The arrays in what Python gives for one batch: a list or tuple of them. None and an empty list: no arrays.
ArrayList arrays_in(const char* function, nb::handle batch) {
  ArrayList all;
  if (batch.is_none()) return all;
  if (!PyList_Check(batch.ptr()) && !PyTuple_Check(batch.ptr()))
    refuse_type({function, "a batch"}, batch, "a list or tuple of arrays");
  for (const nb::handle one : batch)
    all.push_back(to_array({function, "an array of a batch"}, one, std::nullopt, python_call_site()));
  return all;
}

// An object with start(epoch, first), next() and size().
class PythonBatches : public Batches {
 public:
  PythonBatches(const char* function, nb::object object) : function_(function), object_(std::move(object)) {}
  std::int64_t size() const override {
    const CallsPython calling(false);
    return int_argument({function_, "size()"}, nb::borrow(object_.get()).attr("size")(), -1);
  }
  void start(std::int64_t epoch, std::int64_t first) override {
    const CallsPython calling(false);
    nb::borrow(object_.get()).attr("start")(epoch, first);
  }
  ArrayList next() override {
    const CallsPython calling(false);
    return arrays_in(function_, nb::borrow(object_.get()).attr("next")());
  }

 private:
  const char* function_;
  Reference object_;
};

// A list of arrays, an object of batches, or None.
FitData data_of(const char* function, nb::handle data) {
  if (data.is_none()) return {};
  if (PyList_Check(data.ptr())) return arrays_in(function, data);
  return std::shared_ptr<Batches>(std::make_shared<PythonBatches>(function, nb::borrow(data)));
}

nb::list listed(const ArrayList& arrays) {
  nb::list all;
  for (const NDArray& one : arrays) all.append(wrap(NDArray(one)));
  return all;
}

NDArray result_of(const char* function, nb::handle result) {
  if (const NDArray* const array = array_in(result)) return *array;
  refuse_type({function, "what the loss has returned"}, result, "an NDArray");
}

// None; a function of (outputs, labels); or a list of (name or function, weight).
FitLoss loss_of(const char* function, nb::handle loss) {
  if (loss.is_none()) return {};
  if (PyCallable_Check(loss.ptr())) {
    auto held = std::make_shared<Reference>(nb::borrow(loss));
    return FitLoss::Function([function, held](const ArrayList& outputs, const ArrayList& labels) {
      const CallsPython calling(false);
      const bool is_plain = outputs.size() == 1 && labels.size() == 1;
      const nb::object call = nb::borrow(held->get());
      return result_of(function, is_plain ? call(wrap(NDArray(outputs[0])), wrap(NDArray(labels[0])))
                                          : call(listed(outputs), listed(labels)));
    });
  }
  std::vector<LossTerm> terms;
  for (const nb::handle term : loss) {
    const nb::object kind = term[0];
    const double weight = real_argument({function, "the weight of a loss"}, term[1]);
    if (!PyCallable_Check(kind.ptr())) {
      terms.emplace_back(text_in({function, "loss"}, kind), weight);
      continue;
    }
    auto held = std::make_shared<Reference>(kind);
    terms.emplace_back(LossTerm::Function([function, held](const NDArray& output, const NDArray& label) {
                         const CallsPython calling(false);
                         return result_of(
                             function, nb::borrow(held->get())(wrap(NDArray(output)), wrap(NDArray(label))));
                       }),
                       weight);
  }
  return terms;
}

// A list of (name or Metric, output, name of the value).
std::vector<FitMetric> metrics_of(const char* function, const nb::list& metrics) {
  std::vector<FitMetric> all;
  for (const nb::handle one : metrics) {
    const nb::object kind = one[0];
    const auto output = static_cast<int>(int_argument({function, "the output of a metric"}, one[1], 0));
    const std::string name = text_in({function, "the name of a metric"}, one[2]);
    if (nb::isinstance<Locked<Metric>>(kind) && nb::inst_ready(kind)) {
      all.emplace_back(nb::inst_ptr<Locked<Metric>>(kind)->object(), output, name);
    } else {
      all.push_back(in_call(function, [&] {
        return FitMetric(text_in({function, "a metric"}, kind), output, name);
      }));
    }
  }
  return all;
}

FitCapture capture_of(nb::handle capture) {
  if (capture.is_none()) return FitCapture::automatic;
  return nb::cast<bool>(capture) ? FitCapture::always : FitCapture::never;
}

// Ends a list of callbacks' life with the call that they are for.
std::vector<AnyCallback> callbacks_of(const nb::list& callbacks) {
  std::vector<AnyCallback> all;
  for (const nb::handle one : callbacks) {
    if (!nb::isinstance<Callback>(one)) refuse_type({"fit", "a callback"}, one, "a Callback");
    if (!nb::inst_ready(one))
      raise(PyExc_TypeError, kind_of(one) + ".__init__ has not called super().__init__()");
    all.emplace_back(std::shared_ptr<Callback>(std::shared_ptr<void>(), nb::cast<Callback*>(one)));
  }
  return all;
}

nb::tuple fit_for_python(nb::object net, nb::object trainer, nb::handle data, nb::handle validation,
                         nb::handle loss, const nb::list& metrics, const nb::list& callbacks,
                         const nb::dict& given) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> module = module_in({"fit", "net"}, net);
  const auto& locked = nb::cast<const PythonTrainer&>(trainer);
  FitOptions all{.loss = loss_of("fit", loss),
                 .metrics = metrics_of("fit", metrics),
                 .epochs = nb::cast<std::int64_t>(given["epochs"]),
                 .validation = data_of("fit", validation),
                 .callbacks = callbacks_of(callbacks),
                 .verbose = false,
                 .batch = nb::cast<std::int64_t>(given["batch"]),
                 .shuffle = nb::cast<bool>(given["shuffle"]),
                 .seed = nb::cast<std::uint64_t>(given["seed"]),
                 .outputs = nb::cast<std::vector<std::string>>(given["outputs"]),
                 .labels = nb::cast<int>(given["labels"]),
                 .accumulate = nb::cast<int>(given["accumulate"]),
                 .clip_norm = nb::cast<double>(given["clip_norm"]),
                 .clip_value = nb::cast<double>(given["clip_value"]),
                 .capture = capture_of(given["capture"]),
                 .stop_on_nan = nb::cast<bool>(given["stop_on_nan"]),
                 .resume = path_of("fit", given["resume"]),
                 .resume_stopped = nb::cast<bool>(given["resume_stopped"]),
                 .save_on_interrupt = path_of("fit", given["save_on_interrupt"]),
                 .notes = nb::cast<std::map<std::string, std::string>>(given["notes"])};
  for (auto [name, generator] : nb::cast<nb::dict>(given["generators"]))
    all.generators[text_in({"fit", "the name of a generator"}, name)] =
        nb::cast<const PythonGenerator&>(generator).object().get();
  const nb::handle check = given["check_interrupt"];  // `given` lives longer
  all.check_interrupt = [check] {
    const CallsPython calling(false);
    check_signals();
    check();
  };
  all.is_interrupt = [] {
    try {
      throw;
    } catch (nb::python_error& error) {
      const CallsPython calling(false);
      return error.matches(PyExc_KeyboardInterrupt);
    } catch (...) {
      return false;
    }
  };
  const FitData source = data_of("fit", data);
  const RunScope scope(net, trainer);
  const History history = locked.call([&](Trainer& of) {
    return in_call("fit", [&] { return fit(*module, of, source, std::move(all), where); });
  });
  return nb::make_tuple(history.values, history.epochs, history.interrupted, history.stopped);
}

FitValues evaluate_for_python(nb::object net, nb::handle data, nb::handle loss, const nb::list& metrics,
                              std::int64_t batch, const std::vector<std::string>& outputs, int labels) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> module = module_in({"evaluate", "net"}, net);
  const FitData source = data_of("evaluate", data);
  const EvaluateOptions options{.loss = loss_of("evaluate", loss),
                                .metrics = metrics_of("evaluate", metrics),
                                .batch = batch,
                                .outputs = outputs,
                                .labels = labels};
  const ReleaseGil released;
  return in_call("evaluate", [&] { return evaluate(*module, source, options, where); });
}

nb::list predict_for_python(nb::object net, nb::handle data, std::int64_t batch, int inputs) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> module = module_in({"predict", "net"}, net);
  const FitData source = data_of("predict", data);
  ArrayList all;
  {
    const ReleaseGil released;
    all = in_call("predict",
                  [&] { return predict(*module, source, {.batch = batch, .inputs = inputs}, where); });
  }
  return listed(all);
}

}  // namespace

void bind_fit(nb::module_& m) {
  bind_callbacks(m);
  m.def("_fit", &fit_for_python, "net"_a, "trainer"_a, "data"_a.none(), "validation"_a.none(),
        "loss"_a.none(), "metrics"_a, "callbacks"_a, "options"_a,
        nb::sig("def _fit(net: object, trainer: object, data: object | None, validation: object | None, "
                "loss: object | None, "
                "metrics: list[Any], callbacks: list[Any], options: dict[str, Any]) -> tuple[Any, ...]"));
  m.def("_evaluate", &evaluate_for_python, "net"_a, "data"_a.none(), "loss"_a.none(), "metrics"_a, "batch"_a,
        "outputs"_a, "labels"_a,
        nb::sig("def _evaluate(net: object, data: object | None, loss: object | None, metrics: list[Any], "
                "batch: int, "
                "outputs: Sequence[str], labels: int) -> dict[str, float]"));
  m.def("_predict", &predict_for_python, "net"_a, "data"_a.none(), "batch"_a, "inputs"_a);
}

}  // namespace heddle::python
