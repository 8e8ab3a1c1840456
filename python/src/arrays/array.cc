// The class NDArray.
#include "arrays/array.h"

#include <cstring>
#include <string>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <heddle/autograd.h>
#include <heddle/gpu_memory.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/var_use.h>

#include "arrays/array_parts.h"
#include "arrays/devices.h"
#include "call_site.h"
#include "engine/engines.h"
#include "errors.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

PyTypeObject* array_type = nullptr;  // the Python class NDArray, which is never freed

// Calls function without the GIL; its ops have the current Python line as call site.
template <class Function> nb::object computed(Function&& function) {
  const Where where = python_call_site();
  const CallSite site(where);
  NDArray result;
  {
    const ReleaseGil released;
    result = function(where);
  }
  return wrap(std::move(result));
}

nb::object item(nb::handle self, const nb::args& index) {
  if (index.size() > 0) {
    const bool flat = index.size() == 1 && PyIndex_Check(nb::handle(index[0]).ptr());
    const nb::object from = flat ? self.attr("reshape")(-1) : nb::borrow(self);
    const nb::object key = index.size() == 1 ? nb::object(index[0]) : nb::object(index);
    return from[key].attr("item")();
  }
  const NDArray& x = *array_in(self);
  check_one_element("item", x);
  if (x.dtype() == DType::boolean) return nb::steal(PyBool_FromLong(PyObject_IsTrue(self.ptr())));
  PyObject* result = is_floating(x.dtype()) ? PyNumber_Float(self.ptr()) : PyNumber_Long(self.ptr());
  if (!result) raise_set();
  return nb::steal(result);
}

std::string text_of(nb::handle self) {
  const NDArray x = on_cpu(*array_in(self));
  make_readable(x);
  if (use_by_this_op(x.var()) != VarUse::none) return nb::str(to_numpy(self, false)).c_str();
  const ReleaseGil released;
  return x.to_string();
}

std::optional<DType> dtype_or_none(ArgumentOf of, nb::handle dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(to_dtype(of, dtype));
}

// Where `made`, which was made of `object`, is to be: on the device that is asked for; else an array and memory of a GPU
// stay where they are, and anything else goes to the default device.
Device device_or_default(ArgumentOf of, nb::handle device, nb::handle object, const NDArray& made) {
  if (!device.is_none()) return to_device(of, device);
  return array_in(object) || made.device() != cpu() ? made.device() : default_device();
}

nb::object array(nb::handle object, nb::handle dtype, nb::handle device) {
  const Where where = python_call_site();
  const CallSite site(where);
  const std::optional<DType> wanted = dtype_or_none({"array", "dtype"}, dtype);
  NDArray result = to_array({"array", "object"}, object, wanted, where);
  const Device on = device_or_default({"array", "device"}, device, object, result);
  const bool shared = array_in(object) && array_in(object)->storage() == result.storage();
  {
    const ReleaseGil released;
    if (on != result.device()) {
      result = ndarray_detail::in_name_of("array", [&] { return result.copy_to(on, where); });
    } else if (shared) {
      result = result.copy(where);
    }
  }
  return wrap(std::move(result));
}

nb::object moved(const char* function, const NDArray& self, Device device) {
  if (device == self.device()) return wrap(self);
  return computed([&](Where where) {
    return ndarray_detail::in_name_of(function, [&] { return self.copy_to(device, where); });
  });
}

nb::object as_array(nb::handle object, nb::handle dtype, nb::handle device) {
  const Where where = python_call_site();
  const std::optional<DType> wanted = dtype_or_none({"asarray", "dtype"}, dtype);
  NDArray result = to_array({"asarray", "object"}, object, wanted, where);
  return moved("asarray", result, device_or_default({"asarray", "device"}, device, object, result));
}

nb::object empty(nb::handle shape, nb::handle dtype, nb::handle device) {
  const Dims dims = to_dims({"empty", "shape"}, shape);
  const DType type = dtype_or_none({"empty", "dtype"}, dtype).value_or(DType::f32);
  const Device on = device.is_none() ? default_device() : to_device({"empty", "device"}, device);
  return wrap(ndarray_detail::in_name_of("empty", [&] { return NDArray(dims, type, on); }));
}

// Unpickles an array that __reduce__ has pickled: on its device, or on the CPU if this process has no such GPU.
nb::object rebuild(nb::bytes bytes, nb::handle shape, const std::string& dtype, const std::string& device,
                   bool needs_grad) {
  NDArray array(to_dims({"_rebuild", "shape"}, shape),
                to_dtype({"_rebuild", "dtype"}, nb::str(dtype.c_str())));
  const auto size = static_cast<std::size_t>(array.size()) * size_of(array.dtype());
  if (bytes.size() != size) raise(PyExc_ValueError, "a pickled array with a wrong number of bytes");
  std::memcpy(array.data<std::byte>(), bytes.c_str(), size);
  if (array.dtype() == DType::boolean) normalise_bools(array);
  const Device on = to_device({"_rebuild", "device"}, nb::str(device.c_str()));
  const bool there = on.kind == DeviceKind::cpu || gpu_refusal(on).empty();
  if (on != cpu() && there) {
    const ReleaseGil released;
    array = array.copy_to(on);
  }
  if (needs_grad) set_requires_grad(array);
  return wrap(std::move(array));
}

// The shape in the arguments of a method: several ints, as in reshape(2, 3), or one tuple, as in
// reshape((2, 3)).
Dims dims_of(ArgumentOf of, const nb::args& args) {
  if (args.size() == 1 && !PyIndex_Check(nb::handle(args[0]).ptr())) return to_dims(of, args[0]);
  return to_dims(of, nb::borrow(args));
}

using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);
template <Reduction function> void def_reduction(ArrayClass& type, const char* name, const char* signature) {
  type.def(
      name,
      [name](const NDArray& self, nb::handle axis, bool keepdims, nb::handle dtype, nb::handle out) {
        const Dims axes = axis.is_none() ? Dims() : to_dims({name, "axis"}, axis);
        if (axes.empty() && !axis.is_none())
          throw InvalidArgument(std::string(name) + ": axis is (); wanted: an axis, or None for all");
        if (!out.is_none() && !array_in(out)) refuse_type({name, "out"}, out, "an NDArray or None");
        const DType of = dtype.is_none() ? self.dtype() : to_dtype({name, "dtype"}, dtype);
        nb::object result = computed([&](Where where) {
          const NDArray x = of == self.dtype() ? self : self.astype(of, where);
          NDArray y = function(x, axes, keepdims, where);
          if (!out.is_none()) array_in(out)->assign(y, where);
          return y;
        });
        return out.is_none() ? result : nb::borrow(out);
      },
      "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "dtype"_a = nb::none(),
      "out"_a = nb::none(), nb::sig(signature));
}

void bind_reductions(ArrayClass& type) {
  def_reduction<&sum>(type, "sum",
                      "def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, "
                      "dtype: DTypeLike | None = "
                      "None, out: NDArray | None = None) -> NDArray");
  def_reduction<&mean>(type, "mean",
                       "def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, "
                       "dtype: DTypeLike | None = "
                       "None, out: NDArray | None = None) -> NDArray");
  def_reduction<&heddle::max>(type, "max",
                              "def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = "
                              "False, *, dtype: DTypeLike | None = "
                              "None, out: NDArray | None = None) -> NDArray");
  def_reduction<&heddle::min>(type, "min",
                              "def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = "
                              "False, *, dtype: DTypeLike | None = "
                              "None, out: NDArray | None = None) -> NDArray");
}

void bind_properties(ArrayClass& type) {
  type.def_prop_ro(
          "shape", [](const NDArray& self) { return from_dims(self.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const NDArray& self) { return from_dims(self.strides()); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In elements.")
      .def_prop_ro(
          "dtype", [](const NDArray& self) { return from_dtype(self.dtype()); },
          nb::sig("def dtype(self) -> DType"))
      .def_prop_ro("device", &NDArray::device)
      .def_prop_ro("ndim", &NDArray::ndim)
      .def_prop_ro("size", [](const NDArray& self) { return self.size(); })
      .def_prop_ro(
          "nbytes",
          [](const NDArray& self) { return self.size() * static_cast<std::int64_t>(size_of(self.dtype())); })
      .def_prop_ro("is_contiguous", &NDArray::is_contiguous)
      .def_prop_ro(
          "T",
          [](const NDArray& self) { return computed([&](Where where) { return transpose(self, where); }); },
          nb::sig("def T(self) -> NDArray"), "The axes reversed; a view.")
      .def_prop_ro(
          "mT",
          [](const NDArray& self) {
            if (self.ndim() < 2)
              throw InvalidArgument("mT: an array of " + self.shape().to_string() + "; want two axes");
            Dims axes;
            for (int i = 0; i < self.ndim(); ++i) axes.push_back(i);
            std::swap(axes[self.ndim() - 2], axes[self.ndim() - 1]);
            return computed([&](Where where) { return transpose(self, axes, where); });
          },
          nb::sig("def mT(self) -> NDArray"), "The last two axes exchanged; a view.")
      .def_prop_ro(
          "var",
          [](const NDArray& self) {
            return PythonVar{self.var(), non_owning(self.engine())};
          },
          "What the engine orders ops on this array by.")
      .def_prop_ro("engine", [](const NDArray& self) { return PythonEngine{non_owning(self.engine())}; })
      .def_prop_rw(
          "requires_grad", [](const NDArray& self) { return requires_grad(self); },
          [](NDArray& self, bool on) { set_requires_grad(self, on); },
          nb::for_setter(nb::sig("def requires_grad(self, value: bool, /) -> None")),
          "Whether backward() accumulates a gradient here or passes one on.")
      .def_prop_rw(
          "grad",
          [](const NDArray& self) -> nb::object {
            NDArray gradient = grad(self);
            if (gradient.defined()) return wrap(std::move(gradient));
            RowSparse rows = row_sparse_grad(self);
            return rows.defined() ? nb::cast(std::move(rows)) : nb::none();
          },
          [](const NDArray& self, nb::handle value) {
            if (!value.is_none()) refuse_type({"grad", "value"}, value, "None, which clears the gradient");
            clear_grad(self);
          },
          nb::for_getter(nb::sig("def grad(self) -> NDArray | RowSparse | None")),
          nb::for_setter(nb::arg("value").none()),
          nb::for_setter(nb::sig("def grad(self, value: None, /) -> None")), "The accumulated gradient.")
      .def("clear_grad", [](const NDArray& self) { clear_grad(self); });
}

void bind_values(ArrayClass& type) {
  type.def(
          "wait",
          [](const NDArray& self, std::optional<double> timeout) {
            return wait_for(self.engine(), self.var(), timeout);
          },
          "timeout"_a = nb::none(),
          "Blocks until the values are computed; raises an error of the ops that computed them.")
      .def("item", &item, nb::sig("def item(self, *index: int | tuple[int, ...]) -> int | float | bool"),
           "The value of an array with one element, or of the element with this index; one int counts in the "
           "flattened array.")
      .def("__str__", &text_of, nb::sig("def __str__(self) -> str"))
      .def(
          "__repr__",
          [](nb::handle self) {
            const NDArray& x = *array_in(self);
            std::string text = text_of(self);
            for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at)
              text.insert(at + 1, 6, ' ');
            return "array(" + text + ", dtype=" + name_of(x.dtype()) + ")";
          },
          nb::sig("def __repr__(self) -> str"))
      .def(
          "backward",
          [](const NDArray& self, nb::handle seed, bool keep_tape, bool create_graph) {
            const Where where = python_call_site();
            NDArray from;
            if (!seed.is_none())
              from = placed(self.device(), seed, to_array({"backward", "seed"}, seed, self.dtype(), where),
                            where);
            const ReleaseGil released;
            backward(self, {.seed = from, .keep_tape = keep_tape, .create_graph = create_graph}, where);
          },
          "seed"_a = nb::none(), "keep_tape"_a = false, "create_graph"_a = false,
          nb::sig("def backward(self, seed: ArrayLike | None = None, keep_tape: bool = False, "
                  "create_graph: bool = False) -> None"),
          "Adds the gradient of this array to that of every leaf that it was computed from. With "
          "create_graph "
          "gradients can be computed with and have gradients; clear_grad() ends their hold on what they came "
          "from.");
}

void bind_copies(ArrayClass& type) {
  type.def(
          "copy", [](const NDArray& self) { return computed([&](Where where) { return self.copy(where); }); },
          nb::sig("def copy(self) -> NDArray"), "A new contiguous array.")
      .def(
          "__copy__",
          [](const NDArray& self) { return computed([&](Where where) { return self.copy(where); }); },
          nb::sig("def __copy__(self) -> NDArray"))
      .def(
          "__deepcopy__",
          [](const NDArray& self, nb::handle) {
            nb::object copied = computed([&](Where where) { return self.detach().copy(where); });
            if (requires_grad(self)) set_requires_grad(*array_in(copied));
            return copied;
          },
          nb::sig("def __deepcopy__(self, memo: Any) -> NDArray"))
      .def(
          "detach", [](const NDArray& self) { return wrap(self.detach()); },
          nb::sig("def detach(self) -> NDArray"), "The same data, outside any tape.")
      .def(
          "contiguous",
          [](const NDArray& self) { return computed([&](Where where) { return self.contiguous(where); }); },
          nb::sig("def contiguous(self) -> NDArray"))
      .def(
          "astype",
          [](nb::handle self, nb::handle dtype, bool copy) -> nb::object {
            const NDArray& x = *array_in(self);
            const DType wanted = to_dtype({"astype", "dtype"}, dtype);
            if (!copy && wanted == x.dtype()) return nb::borrow(self);
            return computed([&](Where where) { return x.astype(wanted, where); });
          },
          "dtype"_a, "copy"_a = true,
          nb::sig("def astype(self, dtype: DTypeLike, copy: bool = True) -> NDArray"),
          "A copy of another dtype; copy=False: the array itself if it has that dtype.")
      .def(
          "to",
          [](const NDArray& self, nb::handle device) {
            return moved("to", self, to_device({"to", "device"}, device));
          },
          "device"_a, nb::sig("def to(self, device: DeviceLike) -> NDArray"),
          "This array, or a copy on another device.")
      .def(
          "to_device",
          [](const NDArray& self, nb::handle device, nb::handle stream) {
            if (!stream.is_none())
              raise(PyExc_ValueError, "to_device: stream is not None; the engine has streams of its own");
            return moved("to_device", self, to_device({"to_device", "device"}, device));
          },
          "device"_a, nb::kw_only(), "stream"_a = nb::none(),
          nb::sig("def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> NDArray"),
          "to(), by the name of the array API standard.")
      .def(
          "fill",
          [](const NDArray& self, nb::handle value) {
            const Scalar scalar = to_scalar({"fill", "value"}, value);
            const Where where = python_call_site();
            const ReleaseGil released;
            self.fill(scalar, where);
          },
          "value"_a, nb::sig("def fill(self, value: float) -> None"));
}

void bind_shapes(ArrayClass& type) {
  type.def(
          "reshape",
          [](const NDArray& self, const nb::args& shape) {
            const Dims dims = dims_of({"reshape", "shape"}, shape);
            return computed([&](Where where) { return reshape(self, dims, where); });
          },
          nb::sig("def reshape(self, *shape: int | Sequence[int]) -> NDArray"))
      .def(
          "transpose",
          [](const NDArray& self, const nb::args& axes) {
            const Dims dims = axes.size() ? dims_of({"transpose", "axes"}, axes) : Dims();
            return computed([&](Where where) {
              return axes.size() ? transpose(self, dims, where) : transpose(self, where);
            });
          },
          nb::sig("def transpose(self, *axes: int | Sequence[int]) -> NDArray"))
      .def(
          "argmax",
          [](const NDArray& self, std::optional<int> axis) {
            return computed([&](Where where) { return argmax(self, axis, where); });
          },
          "axis"_a = nb::none(), nb::sig("def argmax(self, axis: int | None = None) -> NDArray"))
      .def(
          "argmin",
          [](const NDArray& self, std::optional<int> axis) {
            return computed([&](Where where) { return argmin(self, axis, where); });
          },
          "axis"_a = nb::none(), nb::sig("def argmin(self, axis: int | None = None) -> NDArray"));
}

void bind_row_sparse(nb::module_& m) {
  nb::class_<RowSparse>(m, "RowSparse", "Some rows of a large array; the others are 0.")
      .def_prop_ro(
          "shape", [](const RowSparse& self) { return from_dims(self.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const RowSparse& self) { return from_dtype(self.dtype()); },
          nb::sig("def dtype(self) -> DType"))
      .def_prop_ro(
          "rows", [](const RowSparse& self) { return wrap(self.rows()); },
          nb::sig("def rows(self) -> NDArray"))
      .def_prop_ro(
          "values", [](const RowSparse& self) { return wrap(self.values()); },
          nb::sig("def values(self) -> NDArray"))
      .def_prop_ro(
          "count", [](const RowSparse& self) { return wrap(self.count()); },
          nb::sig("def count(self) -> NDArray"));
}

}  // namespace

nb::object wrap(NDArray array) {
  default_engine_is_used();
  nb::object object = nb::inst_alloc(reinterpret_cast<PyObject*>(array_type));
  if (!object.is_valid()) raise_set();
  new (nb::inst_ptr<NDArray>(object)) NDArray(std::move(array));
  nb::inst_mark_ready(object);
  return object;
}

NDArray* array_in(nb::handle object) {
  return Py_TYPE(object.ptr()) == array_type ? nb::inst_ptr<NDArray>(object) : nullptr;
}

void bind_arrays(nb::module_& m) {
  ArrayClass type(
      m, "NDArray", nb::is_final(), nb::is_weak_referenceable(), nb::pooled(), nb::type_slots(number_slots()),
      "An n-dimensional array whose values the engine computes. Every call returns at once; wait(), item(), "
      "numpy() and printing block until the values are there.");
  array_type = reinterpret_cast<PyTypeObject*>(nb::object(type).inc_ref().ptr());
  bind_row_sparse(m);
  bind_properties(type);
  bind_values(type);
  bind_copies(type);
  bind_shapes(type);
  bind_reductions(type);
  bind_memory(type);
  bind_from_dlpack(m);
  type.attr("__array_ufunc__") = nb::none();  // makes NumPy's operators leave operands to NDArray's operators
  m.def("array", &array, "object"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
        nb::sig("def array(object: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> "
                "NDArray"),
        "A new array with the values of a number, nested lists, a NumPy array or an array. Floats of Python "
        "become f32.");
  m.def(
      "asarray", &as_array, "object"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      nb::sig("def asarray(object: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> "
              "NDArray"),
      "The array itself if it is one of that dtype on that device, else array(object, dtype, device).");
  m.def("empty", &empty, "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
        nb::sig("def empty(shape: int | Sequence[int], dtype: DTypeLike | None = None, device: DeviceLike | "
                "None = None) -> NDArray"),
        "An array of undetermined values.");
  m.def("_rebuild", &rebuild, nb::sig("def _rebuild(*args: Any) -> NDArray"));
}

}  // namespace heddle::python
