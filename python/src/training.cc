// Autograd, layers, optimizers and the trainer.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <heddle/autograd.h>
#include <heddle/optimizer.h>
#include <heddle/schedule.h>
#include <heddle/sequential.h>
#include <heddle/trainer.h>

#include "array.h"
#include "errors.h"
#include "holders.h"
#include "keys.h"
#include "module.h"
#include "place.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// A layer whose class is written in Python: forward(x), and parameters() if it has any.
struct PythonLayer : Layer {
  NB_TRAMPOLINE(Layer, 3);
  std::vector<Parameter> parameters() const override { NB_OVERRIDE(parameters); }
  void train(bool on) override { NB_OVERRIDE(train, on); }
  std::string to_string() const override {
    const HoldGil gil;
    const nb::object self = nb::find(static_cast<const Layer*>(this));
    return (self.is_valid() ? kind_of(self) : "Layer") + "()";
  }
  NDArray forward(const NDArray& x) override { NB_OVERRIDE_PURE(forward, x); }
};

nb::object forward(Layer& self, nb::handle x) {
  const Where where = python_place();
  const NDArray input = to_array(x, std::nullopt, where);
  NDArray result;
  {
    const ReleaseGil released;
    result = self(input, where);
  }
  return wrap(std::move(result));
}

Init init_of(const std::string& name) {
  if (name == "he") return Init::he;
  if (name == "xavier") return Init::xavier;
  throw InvalidArgument("init is '" + name + "'; want he or xavier");
}

Device device_of(nb::handle device) { return device.is_none() ? Device() : to_device(device); }

Generator& generator_of(Generator* generator) { return generator ? *generator : default_generator(); }

void bind_dense_layers(nb::module_& m) {
  nb::class_<Dense, Layer>(m, "Dense", "x (batch, in) -> x @ weight.T + bias (batch, out).")
      .def(
          "__init__",
          [](Dense* self, std::int64_t in, std::int64_t out, bool bias, bool relu, const std::string& init,
             nb::handle device, Generator* generator) {
            const DenseOptions options{
                .bias = bias, .relu = relu, .init = init_of(init), .device = device_of(device)};
            const Where where = python_place();
            const ReleaseGil released;
            new (self) Dense(in, out, options, generator_of(generator), where);
          },
          "in_features"_a, "out_features"_a, nb::kw_only(), "bias"_a = true, "relu"_a = false,
          "init"_a = "he", "device"_a = nb::none(), "generator"_a = nb::none(),
          nb::sig(
              "def __init__(self, in_features: int, out_features: int, *, bias: bool = True, relu: bool = "
              "False, init: "
              "str = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None"));
  nb::class_<Conv2d, Layer>(m, "Conv2d", "x (batch, in, h, w) -> (batch, out, h', w').")
      .def(
          "__init__",
          [](Conv2d* self, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
             std::int64_t padding, bool bias, bool relu, const std::string& init, nb::handle device,
             Generator* generator) {
            const Conv2dLayerOptions options{.stride = stride,
                                             .padding = padding,
                                             .bias = bias,
                                             .relu = relu,
                                             .init = init_of(init),
                                             .device = device_of(device)};
            const Where where = python_place();
            const ReleaseGil released;
            new (self) Conv2d(in, out, kernel, options, generator_of(generator), where);
          },
          "in_channels"_a, "out_channels"_a, "kernel"_a, nb::kw_only(), "stride"_a = 1, "padding"_a = 0,
          "bias"_a = true, "relu"_a = false, "init"_a = "he", "device"_a = nb::none(),
          "generator"_a = nb::none(),
          nb::sig("def __init__(self, in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, "
                  "padding: int = 0, "
                  "bias: bool = True, relu: bool = False, init: str = 'he', device: DeviceLike | None = "
                  "None, generator: "
                  "Generator | None = None) -> None"));
  nb::class_<Embedding, Layer>(m, "Embedding", "Indices -> rows of the weight.")
      .def(
          "__init__",
          [](Embedding* self, std::int64_t rows, std::int64_t features, double stddev, bool sparse_grad,
             nb::handle device, Generator* generator) {
            const EmbeddingLayerOptions options{
                .stddev = stddev, .sparse_grad = sparse_grad, .device = device_of(device)};
            const Where where = python_place();
            const ReleaseGil released;
            new (self) Embedding(rows, features, options, generator_of(generator), where);
          },
          "rows"_a, "features"_a, nb::kw_only(), "std"_a = 1.0, "sparse_grad"_a = false,
          "device"_a = nb::none(), "generator"_a = nb::none(),
          nb::sig("def __init__(self, rows: int, features: int, *, std: float = 1.0, sparse_grad: bool = "
                  "False, device: "
                  "DeviceLike | None = None, generator: Generator | None = None) -> None"));
}

void bind_other_layers(nb::module_& m) {
  nb::class_<MaxPool2d, Layer>(m, "MaxPool2d", "The largest of each window; stride 0 means kernel.")
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t>(), "kernel"_a, "stride"_a = 0, "padding"_a = 0);
  nb::class_<AvgPool2d, Layer>(m, "AvgPool2d", "The mean of each window; stride 0 means kernel.")
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t>(), "kernel"_a, "stride"_a = 0, "padding"_a = 0);
  nb::class_<Relu, Layer>(m, "Relu").def(nb::init<>());
  nb::class_<Tanh, Layer>(m, "Tanh").def(nb::init<>());
  nb::class_<Sigmoid, Layer>(m, "Sigmoid").def(nb::init<>());
  nb::class_<Flatten, Layer>(m, "Flatten", "(batch, a, b, ...) -> (batch, a * b * ...)").def(nb::init<>());
  nb::class_<Dropout, Layer>(m, "Dropout", "In training zeroes each element with this probability.")
      .def(
          "__init__", [](Dropout* self, double probability) { new (self) Dropout(probability); },
          "probability"_a);
  nb::class_<Sequential, Layer>(m, "Sequential", "Layers one after the other.")
      .def(
          "__init__",
          [](Sequential* self, const nb::args& layers) {
            auto made = std::make_unique<Sequential>();
            for (nb::handle layer : layers) made->add(nb::cast<std::shared_ptr<Layer>>(layer));
            new (self) Sequential(*made);
          },
          nb::sig("def __init__(self, *layers: Layer) -> None"))
      .def(
          "add", [](Sequential& self, std::shared_ptr<Layer> layer) { self.add(std::move(layer)); },
          "layer"_a)
      .def("__len__", &Sequential::size)
      .def(
          "__getitem__",
          [](const Sequential& self, std::size_t index) -> Layer& {
            if (index >= self.size()) throw nb::index_error("no such layer");
            return self[index];
          },
          nb::rv_policy::reference_internal);
}

void bind_layers(nb::module_& m) {
  nb::class_<Parameter>(m, "Parameter", "A leaf that requires a gradient, with a name.")
      .def(
          "__init__",
          [](Parameter* self, std::string name, const NDArray& value) {
            new (self) Parameter{std::move(name), value};
          },
          "name"_a, "value"_a)
      .def_ro("name", &Parameter::name)
      .def_prop_ro(
          "value", [](const Parameter& self) { return wrap(self.value); },
          nb::sig("def value(self) -> NDArray"));
  nb::class_<Layer, PythonLayer>(
      m, "Layer", "A function on arrays with parameters of its own. Classes in Python define forward(x).")
      .def(nb::init<>())
      .def("__call__", &forward, "x"_a, nb::sig("def __call__(self, x: NDArray) -> NDArray"))
      .def(
          "parameters", [](const Layer& self) { return self.parameters(); },
          nb::sig("def parameters(self) -> list[Parameter]"))
      .def(
          "train", [](Layer& self, bool on) { self.train(on); }, "on"_a = true,
          "Training or inference; training at first.")
      .def("__repr__", [](const Layer& self) { return self.to_string(); });
  bind_dense_layers(m);
  bind_other_layers(m);
}

// Switches gradients off on its thread from __enter__ to __exit__.
struct NoGradBlock {
  NoGradBlock() = default;
  NoGradBlock(const NoGradBlock&) = delete;
  std::vector<std::unique_ptr<NoGrad>> open;
};

void bind_autograd(nb::module_& m) {
  nb::class_<NoGradBlock>(m, "no_grad",
                          "In the block, operators of this thread record nothing for backward().")
      .def(nb::init<>())
      .def(
          "__enter__", [](NoGradBlock& self) { self.open.push_back(std::make_unique<NoGrad>()); },
          nb::sig("def __enter__(self) -> None"))
      .def(
          "__exit__", [](NoGradBlock& self, const nb::args&) { self.open.pop_back(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
}

UpdateOptions update_options(std::optional<double> lr, double grad_scale) {
  return {.lr = lr, .grad_scale = grad_scale};
}

void update(Optimizer& self, nb::handle key, const NDArray& weight, nb::handle grad, std::optional<double> lr,
            double grad_scale) {
  const Where where = python_place();
  const Key of = to_key(key);
  const UpdateOptions options = update_options(lr, grad_scale);
  if (nb::isinstance<RowSparse>(grad)) {
    const RowSparse rows = *nb::inst_ptr<RowSparse>(grad);
    const ReleaseGil released;
    return self.update(of, weight, rows, options, where);
  }
  const NDArray whole = to_array(grad, std::nullopt, where);
  const ReleaseGil released;
  self.update(of, weight, whole, options, where);
}

OptimizerParams params_of(const nb::kwargs& kwargs) {
  OptimizerParams params;
  for (auto [name, value] : kwargs) params[nb::cast<std::string>(name)] = nb::cast<double>(value);
  return params;
}

void bind_optimizers(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", "Keeps the state of any number of weights, each under a key.")
      .def(nb::new_([](const std::string& name, const nb::kwargs& params) {
             return std::shared_ptr<Optimizer>(create_optimizer(name, params_of(params)));
           }),
           "By name: sgd, adam or adamw; params that differ from the defaults.")
      .def_prop_ro("name", [](const Optimizer& self) { return self.name(); })
      .def_prop_ro("params", [](const Optimizer& self) { return self.params(); })
      .def("update", &update, "key"_a, "weight"_a, "grad"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
           nb::sig("def update(self, key: int | str, weight: NDArray, grad: NDArray | RowSparse, lr: float | "
                   "None = None, "
                   "grad_scale: float = 1.0) -> None"),
           "Pushes one op that updates the weight in place.")
      .def("state", [](const Optimizer& self) { return self.state(); })
      .def(
          "set_state",
          [](Optimizer& self, const std::map<std::string, NDArray>& state) {
            const Where where = python_place();
            const ReleaseGil released;
            self.set_state(state, where);
          },
          "state"_a)
      .def("clear_errors", [](Optimizer& self) { self.clear_errors(python_place()); });
}

Schedule schedule_of(nb::handle callable) {
  if (callable.is_none()) return {};
  auto held = std::make_shared<Reference>(nb::borrow(callable));
  return [held](std::int64_t step) {
    const HoldGil gil;
    if (!gil) throw Error("the interpreter has ended");
    return nb::cast<double>(nb::borrow(held->get())(step));
  };
}

std::shared_ptr<Trainer> make_trainer(const std::vector<Parameter>& parameters, const std::string& optimizer,
                                      const std::map<std::string, double>& params, nb::handle schedule,
                                      std::shared_ptr<KVStore> store) {
  TrainerOptions options{
      .optimizer = optimizer, .params = params, .schedule = schedule_of(schedule), .store = std::move(store)};
  const Where where = python_place();
  std::shared_ptr<Trainer> trainer;
  {
    const ReleaseGil released;
    trainer = std::make_shared<Trainer>(parameters, std::move(options), where);
  }
  return destroyed_without_gil(std::move(trainer));
}

void bind_trainer(nb::module_& m) {
  nb::class_<Trainer>(m, "Trainer",
                      "Parameters, an optimizer in a store, and a learning rate for every step.")
      .def(nb::new_([](const std::vector<Parameter>& parameters, const std::string& optimizer,
                       const std::map<std::string, double>& params, nb::handle schedule,
                       std::shared_ptr<KVStore> store) {
             return make_trainer(parameters, optimizer, params, schedule, std::move(store));
           }),
           "parameters"_a, "optimizer"_a = "sgd", "params"_a = std::map<std::string, double>{},
           "schedule"_a = nb::none(), "store"_a = nb::none())
      .def(
          "step",
          [](Trainer& self, double grad_scale) {
            const Where where = python_place();
            const ReleaseGil released;
            self.step(grad_scale, where);
          },
          "grad_scale"_a = 1.0, "Updates every parameter by its gradient, and clears the gradients.")
      .def_prop_ro("steps", &Trainer::steps)
      .def_prop_ro(
          "learning_rate", [](const Trainer& self) { return self.learning_rate(); }, "Of the next step.")
      .def(
          "clear_errors",
          [](Trainer& self) {
            const Where where = python_place();
            const ReleaseGil released;
            self.clear_errors(where);
          },
          "To go on after an error: removes the poison of parameters and state, and drops the gradients.")
      .def("state", [](const Trainer& self) { return self.state(); })
      .def(
          "set_state",
          [](Trainer& self, const std::map<std::string, NDArray>& state) {
            const Where where = python_place();
            const ReleaseGil released;
            self.set_state(state, where);
          },
          "state"_a);
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_autograd(m);
  bind_layers(m);
  bind_optimizers(m);
}

void bind_trainers(nb::module_& m) { bind_trainer(m); }

}  // namespace heddle::python
