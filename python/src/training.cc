// Layers.
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <heddle/sequential.h>

#include "array.h"
#include "module.h"
#include "objects.h"
#include "place.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// A layer whose class is written in Python: forward(x), and parameters() if it has any.
struct PythonLayer : Layer {
  NB_TRAMPOLINE(Layer, 3);
  std::vector<Parameter> parameters() const override {
    const CallsPython calling(false);
    try {
      NB_OVERRIDE(parameters);
    } catch (const std::bad_cast&) {
      throw InvalidArgument(to_string() + ": parameters() has not returned a list of Parameters");
    }
  }
  void train(bool on) override {
    const CallsPython calling(false);
    NB_OVERRIDE(train, on);
  }
  std::string to_string() const override {
    const HoldGil gil;
    const nb::object self = nb::find(static_cast<const Layer*>(this));
    return (self.is_valid() ? kind_of(self) : "Layer") + "()";
  }
  NDArray forward(const NDArray& x) override {
    const CallsPython calling(false);
    const nb::object self = nb::find(static_cast<const Layer*>(this));
    if (self.is_valid() && !nb::hasattr(self, "forward"))
      throw InvalidArgument(to_string() + ": forward is missing; want a class that defines forward(self, x)");
    try {
      NB_OVERRIDE_PURE(forward, x);
    } catch (const std::bad_cast&) {
      throw InvalidArgument(to_string() + ": forward() has not returned an NDArray");
    }
  }
};

// Without super().__init__() there is a Python object and no layer in it.
bool is_initialised(nb::handle layer) { return nb::inst_ready(layer); }

void check_initialised(nb::handle layer) {
  if (is_initialised(layer)) return;
  const std::string kind = kind_of(layer);
  raise(PyExc_TypeError, kind + ".__init__ has not called super().__init__()");
}

std::shared_ptr<Layer> layer_in(ArgumentOf of, nb::handle object) {
  if (!nb::isinstance<Layer>(object)) refuse_type(of, object, "a Layer");
  check_initialised(object);
  return nb::cast<std::shared_ptr<Layer>>(object);
}

Layer& self_in(const char* function, nb::handle self) {
  if (!nb::isinstance<Layer>(self)) refuse_type({function, "self"}, self, "a Layer");
  check_initialised(self);
  return *nb::cast<Layer*>(self);
}

nb::object forward(nb::handle layer, nb::handle x) {
  const Where where = python_place();
  Layer& self = self_in("Layer", layer);
  const NDArray input = to_array({"Layer", "x"}, x, std::nullopt, where);
  NDArray result;
  {
    const ReleaseGil released;
    result = self(input, where);
  }
  return wrap(std::move(result));
}

Init init_of(const char* layer, const std::string& name) {
  if (name == "he") return Init::he;
  if (name == "xavier") return Init::xavier;
  refuse_value({layer, "init"}, "'" + name + "'", "he or xavier");
}

Device device_of(const char* layer, nb::handle device) {
  return device.is_none() ? Device() : to_device({layer, "device"}, device);
}

// The layer of C++ has other names for these arguments.
void check_size(ArgumentOf of, std::int64_t given) {
  if (given < 1) refuse_value(of, std::to_string(given), "1 or more");
}

// Calls make(generator) without the GIL: with the one that is given, under its lock, or with this thread's.
template <class Make> void with_generator(const PythonGenerator* generator, Make&& make) {
  if (generator) return generator->call(make);
  const ReleaseGil released;
  make(default_generator());
}

void bind_dense_layers(nb::module_& m) {
  nb::class_<Dense, Layer>(m, "Dense", "x (batch, in) -> x @ weight.T + bias (batch, out).")
      .def(
          "__init__",
          [](Dense* self, std::int64_t in, std::int64_t out, bool bias, bool relu, const std::string& init,
             nb::handle device, const PythonGenerator* generator) {
            check_size({"Dense", "in_features"}, in);
            check_size({"Dense", "out_features"}, out);
            const DenseOptions options{.bias = bias,
                                       .relu = relu,
                                       .init = init_of("Dense", init),
                                       .device = device_of("Dense", device)};
            const Where where = python_place();
            with_generator(generator,
                           [&](Generator& drawn) { new (self) Dense(in, out, options, drawn, where); });
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
             const PythonGenerator* generator) {
            check_size({"Conv2d", "in_channels"}, in);
            check_size({"Conv2d", "out_channels"}, out);
            const Conv2dLayerOptions options{.stride = stride,
                                             .padding = padding,
                                             .bias = bias,
                                             .relu = relu,
                                             .init = init_of("Conv2d", init),
                                             .device = device_of("Conv2d", device)};
            const Where where = python_place();
            with_generator(generator, [&](Generator& drawn) {
              new (self) Conv2d(in, out, kernel, options, drawn, where);
            });
          },
          "in_channels"_a, "out_channels"_a, "kernel"_a, nb::kw_only(), "stride"_a = 1, "padding"_a = 0,
          "bias"_a = true, "relu"_a = false, "init"_a = "he", "device"_a = nb::none(),
          "generator"_a = nb::none(),
          nb::sig("def __init__(self, in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, "
                  "padding: int = 0, "
                  "bias: bool = True, relu: bool = False, init: str = 'he', device: DeviceLike | None = "
                  "None, generator: "
                  "Generator | None = None) -> None"));
}

void bind_embedding(nb::module_& m) {
  nb::class_<Embedding, Layer>(m, "Embedding", "Indices -> rows of the weight.")
      .def(
          "__init__",
          [](Embedding* self, std::int64_t rows, std::int64_t features, double stddev, bool sparse_grad,
             nb::handle device, const PythonGenerator* generator) {
            const EmbeddingLayerOptions options{
                .stddev = stddev, .sparse_grad = sparse_grad, .device = device_of("Embedding", device)};
            const Where where = python_place();
            with_generator(generator, [&](Generator& drawn) {
              new (self) Embedding(rows, features, options, drawn, where);
            });
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
            for (nb::handle layer : layers) made->add(layer_in({"Sequential", "one of layers"}, layer));
            new (self) Sequential(*made);
          },
          nb::sig("def __init__(self, *layers: Layer) -> None"))
      .def(
          "add",
          [](nb::handle self, nb::handle layer) {
            if (!nb::isinstance<Sequential>(self)) refuse_type({"add", "self"}, self, "a Sequential");
            check_initialised(self);
            nb::cast<Sequential*>(self)->add(layer_in({"add", "layer"}, layer));
          },
          "layer"_a, nb::sig("def add(self, layer: Layer) -> None"))
      .def("__len__", &Sequential::size)
      .def(
          "__getitem__",
          [](const Sequential& self, std::int64_t index) -> Layer& {
            const auto size = static_cast<std::int64_t>(self.size());
            if (index < -size || index >= size) {
              const std::string what = "Sequential: index is " + std::to_string(index) + "; there are " +
                                       std::to_string(size) + " layers";
              throw nb::index_error(what.c_str());
            }
            return self[static_cast<std::size_t>(index < 0 ? index + size : index)];
          },
          "index"_a, nb::rv_policy::reference_internal);
}

void bind_layers(nb::module_& m) {
  nb::class_<Parameter>(m, "Parameter", "A name and an array, whose requires_grad is to be set.")
      .def(
          "__init__",
          [](Parameter* self, std::string name, const NDArray& value) {
            new (self) Parameter{std::move(name), value};
          },
          "name"_a, "value"_a)
      .def_ro("name", &Parameter::name)
      .def_prop_ro(
          "value", [](Parameter& self) -> NDArray& { return self.value; }, nb::rv_policy::reference_internal,
          nb::sig("def value(self) -> NDArray"));
  nb::class_<Layer, PythonLayer>(
      m, "Layer", "A function on arrays with parameters of its own. Classes in Python define forward(x).")
      .def(nb::init<>())
      .def("__call__", &forward, "x"_a, nb::sig("def __call__(self, x: NDArray) -> NDArray"))
      .def(
          "parameters", [](nb::handle self) { return self_in("parameters", self).parameters(); },
          nb::sig("def parameters(self) -> list[Parameter]"))
      .def(
          "train", [](nb::handle self, bool on) { self_in("train", self).train(on); }, "on"_a = true,
          nb::sig("def train(self, on: bool = True) -> None"), "Training or inference; training at first.")
      .def(
          "__repr__",
          [](nb::handle self) {
            return is_initialised(self) ? self_in("__repr__", self).to_string()
                                        : kind_of(self) + " without super().__init__()";
          },
          nb::sig("def __repr__(self) -> str"));
  bind_dense_layers(m);
  bind_embedding(m);
  bind_other_layers(m);
}

}  // namespace

void bind_training(nb::module_& m) { bind_layers(m); }

}  // namespace heddle::python
