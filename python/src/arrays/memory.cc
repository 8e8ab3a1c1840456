// Exchange of the memory of arrays with other libraries: NumPy, the buffer protocol, DLPack.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <heddle/array_creation.h>
#include <heddle/autograd.h>
#include <heddle/dlpack.h>
#include <heddle/var_use.h>

#include "arguments.h"
#include "arrays/array_parts.h"
#include "arrays/numpy.h"
#include "call_site.h"
#include "engine/engines.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// Py_buffer::format of a dtype. The protocol has no bf16: with `raw` it is exported as unsigned shorts.
const char* format_of(DType dtype, bool raw) {
  switch (dtype) {
    case DType::f32:
      return "f";
    case DType::f64:
      return "d";
    case DType::i32:
      return "i";
    case DType::i64:
      return "l";
    case DType::u8:
      return "B";
    case DType::boolean:
      return "?";
    case DType::f16:
      return "e";
    case DType::i8:
      return "b";
    case DType::i16:
      return "h";
    case DType::u16:
      return "H";
    case DType::u32:
      return "I";
    case DType::u64:
      return "L";
    case DType::bf16:
      break;
  }
  return raw ? "H" : nullptr;
}

// True while to_numpy gets the buffer: bf16 is then exported as unsigned shorts.
thread_local bool raw_halves = false;

// Whether Python code may only read the array's memory. Inside an op this follows from how the op declared
// the var. Outside, an array that needs a gradient is read-only, since the tape would not know of the change.
bool is_read_only(const NDArray& array) {
  const VarUse use = use_by_this_op(array.var());
  if (use != VarUse::none) return use == VarUse::read;
  return requires_grad(array) || array.overlaps_itself();
}

// Whether the array is contiguous in Fortran order: the first axis has the stride 1.
bool is_column_major(const NDArray& array) {
  std::int64_t stride = 1;
  for (int i = 0; i < array.ndim(); ++i) {
    if (array.shape()[i] != 1 && array.strides()[i] != stride) return false;
    stride *= array.shape()[i];
  }
  return true;
}

// The shape and the strides in bytes of a buffer that was exported by the buffer protocol.
struct Export {
  Py_ssize_t shape[kMaxDims], strides[kMaxDims];
};

void fill(Py_buffer& buffer, const NDArray& array, bool read_only, const char* format) {
  const auto size = static_cast<Py_ssize_t>(size_of(array.dtype()));
  auto* dims = new Export;
  for (int i = 0; i < array.ndim(); ++i) {
    dims->shape[i] = static_cast<Py_ssize_t>(array.shape()[i]);
    // Sets a stride that overflows to 0. It is never used: the axis has one element, or the array has none.
    if (__builtin_mul_overflow(array.strides()[i], size, &dims->strides[i])) dims->strides[i] = 0;
  }
  buffer.buf = const_cast<std::byte*>(array.data<const std::byte>());
  buffer.len = static_cast<Py_ssize_t>(array.size()) * size;
  buffer.itemsize = size;
  buffer.readonly = read_only;
  buffer.ndim = array.ndim();
  buffer.format = const_cast<char*>(format);
  buffer.shape = dims->shape;
  buffer.strides = dims->strides;
  buffer.suboffsets = nullptr;
  buffer.internal = dims;
}

void check_flags(const NDArray& array, bool read_only, int flags) {
  if ((flags & PyBUF_WRITABLE) && read_only) raise(PyExc_BufferError, "the array is read-only here");
  const bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const bool contiguous = array.is_contiguous();
  if ((!strided || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS) && !contiguous) {
    raise(PyExc_BufferError, "the array is not contiguous; use contiguous()");
  }
  const bool column_major = array.size() == 0 || is_column_major(array);
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !column_major) {
    raise(PyExc_BufferError, "the array is not in column-major order");
  }
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !contiguous && !column_major) {
    raise(PyExc_BufferError, "the array is not contiguous; use contiguous()");
  }
}

void check_device(const NDArray& array) {
  if (array.device().kind == DeviceKind::cuda) {
    raise(PyExc_BufferError,
          "the array is on " + array.device().to_string() + "; copy it to the CPU first: x.to('cpu')");
  }
}

struct HeldBuffer {
  explicit HeldBuffer(nb::handle of) {
    if (PyObject_GetBuffer(of.ptr(), &buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) raise_set();
  }
  ~HeldBuffer() { PyBuffer_Release(&buffer); }
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  Py_buffer buffer;
};

// Copies the NumPy array `from`, which NumPy has made of the caller's object `given`, to a new array. NumPy
// first converts it to row-major order and native byte order.
NDArray copy_of_numpy(ArgumentOf of, nb::handle given, nb::handle from, std::optional<DType> dtype) {
  const CallsPython calling;
  nb::object source = numpy("asarray")(from, "order"_a = "C");
  const std::string name = nb::cast<nb::str>(source.attr("dtype").attr("name")).c_str();
  if (name == "object" || name == "str" || name.starts_with("str")) {
    refuse_type(of, given, "an array of numbers; NumPy makes one of dtype " + name + " of it");
  }
  const std::string its_dtype = std::string("the dtype of ") + of.argument;
  const DType own = to_dtype({of.function, its_dtype.c_str()}, source.attr("dtype"));
  if (own == DType::bf16) {
    source = source.attr("view")("uint16");
  } else if (!nb::cast<bool>(source.attr("dtype").attr("isnative"))) {
    source = source.attr("astype")(source.attr("dtype").attr("newbyteorder")("="));
  }
  NDArray result;
  {
    const HeldBuffer held(source);
    const Py_buffer& buffer = held.buffer;
    Dims shape;
    for (int i = 0; i < buffer.ndim; ++i) shape.push_back(buffer.shape[i]);
    result = NDArray(shape, own);
    std::memcpy(result.data<std::byte>(), buffer.buf, static_cast<std::size_t>(buffer.len));
    if (own == DType::boolean) normalise_bools(result);
  }
  if (!dtype || *dtype == own) return result;
  const ReleaseGil released;
  return result.astype(*dtype);
}

// Whether the object consists of Python's own numbers. Then the dtype that NumPy chooses for floats, f64, is
// not the caller's wish, and f32 is used.
bool is_plain(nb::handle object) {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) || PyFloat_Check(object.ptr());
}

// --- DLPack ---

constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kUnversioned = "dltensor";

template <class Tensor> void destroy_capsule(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  // A receiver that has taken the tensor has renamed the capsule, and will call the deleter itself.
  if (!name || std::strncmp(name, "used_", 5) == 0) return;
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, name));
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}

std::array<std::int64_t, 2> pair_of(ArgumentOf of, nb::handle object) {
  if (!PyTuple_Check(object.ptr()) || PyTuple_Size(object.ptr()) != 2)
    refuse_type(of, object, "a tuple of two ints");
  return {int_argument(of, PyTuple_GetItem(object.ptr(), 0)),
          int_argument(of, PyTuple_GetItem(object.ptr(), 1))};
}

void check_dlpack_device(const NDArray& array, nb::handle wanted) {
  if (wanted.is_none()) return;
  const heddle_dl_device own = dlpack_device(array);
  const std::array<std::int64_t, 2> pair = pair_of({"__dlpack__", "dl_device"}, wanted);
  if (pair[0] != own.type || pair[1] != own.index) {
    raise(PyExc_BufferError, "__dlpack__: the array is on another device; copy it there first: x.to(...)");
  }
}

template <class Tensor>
nb::object capsule_of(Tensor* (*lend)(const NDArray&, bool, Where), const NDArray& array, bool copy,
                      bool read_only, const char* name, Where where) {
  Tensor* tensor;
  {
    const ReleaseGil released;
    tensor = lend(array, copy, where);
  }
  if constexpr (std::is_same_v<Tensor, heddle_dl_managed_tensor_versioned>) {
    if (read_only) tensor->flags |= HEDDLE_DL_READ_ONLY;
  }
  PyObject* capsule = PyCapsule_New(tensor, name, destroy_capsule<Tensor>);
  if (capsule) return nb::steal(capsule);
  tensor->deleter(tensor);
  raise_set();
}

nb::object dlpack(const NDArray& self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                  nb::handle copy) {
  const Where where = python_call_site();
  if (!stream.is_none() && self.device().kind != DeviceKind::cuda) {
    raise(PyExc_ValueError, "__dlpack__: stream is for arrays of a GPU");
  }
  if (!copy.is_none() && !PyBool_Check(copy.ptr()))
    refuse_type({"__dlpack__", "copy"}, copy, "a bool or None");
  const bool copied = copy.ptr() == Py_True;
  check_dlpack_device(self, dl_device);
  const bool versioned =
      !max_version.is_none() && pair_of({"__dlpack__", "max_version"}, max_version)[0] >= 1;
  const bool read_only = is_read_only(self) && !copied;
  if (read_only && !versioned) {
    raise(PyExc_BufferError,
          "__dlpack__: the array is read-only here, which receivers from before DLPack 1 cannot be told");
  }
  make_writable(self);
  if (versioned) return capsule_of(&to_dlpack, self, copied, read_only, kVersioned, where);
  return capsule_of(&to_dlpack_unversioned, self, copied, read_only, kUnversioned, where);
}

// Wraps a tensor of another library, so that its deleter, which may need the GIL, is called with it. A tensor
// that Heddle has lent needs no GIL and is returned as it is, since is_own_loan recognises it by its deleter.
template <class Tensor> Tensor* with_gil(Tensor* theirs) {
  if (is_own_loan(*theirs)) return theirs;
  auto* ours = new Tensor(*theirs);
  ours->manager_ctx = theirs;
  ours->deleter = [](Tensor* self) {
    auto* producers = static_cast<Tensor*>(self->manager_ctx);
    delete self;
    const HoldGil gil;
    if (gil && producers->deleter) producers->deleter(producers);
  };
  return ours;
}

template <class Tensor>
NDArray take_capsule(nb::handle capsule, const char* name, const char* used, bool copy, Where where) {
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!tensor) raise_set();
  Tensor* ours = with_gil(tensor);
  NDArray result;
  try {
    const ReleaseGil released;
    result = from_dlpack(ours, copy, where);
  } catch (...) {
    if (ours != tensor) delete ours;  // deletes only the wrapper: the capsule still owns `tensor`
    throw;
  }
  PyCapsule_SetName(capsule.ptr(), used);
  return result;
}

// The options of from_dlpack. The result has to be on `device`; nullopt: on the device of the lent memory.
struct Wanted {
  nb::handle copy;
  std::optional<Device> device;
  bool may_copy() const { return copy.is_none() || copy.ptr() == Py_True; }
  bool must_copy() const { return copy.ptr() == Py_True; }
};

// from_dlpack for an object that is a heddle.NDArray. It needs no capsule: the result is a view with the same
// memory and var, outside of any tape, or a copy.
NDArray from_own(const NDArray& source, const Wanted& wanted, Where where) {
  const bool read_only = is_read_only(source);
  if (read_only && !wanted.may_copy()) {
    raise(PyExc_BufferError, "from_dlpack: the memory is read-only; a copy can be written (copy = True)");
  }
  if (!read_only && !wanted.must_copy()) return source.detach();
  const ReleaseGil released;
  return source.detach().copy(where);
}

// Calls __dlpack__ of the object that lends memory. Tries the keywords of DLPack 1 first, then fewer ones.
// Sets `copied` if that object made the copy that is wanted.
nb::object ask_for_capsule(nb::handle source, const Wanted& wanted, bool& copied) {
  const CallsPython calling;
  const nb::object lend = source.attr("__dlpack__");
  const nb::tuple version = nb::make_tuple(1, 1);
  const auto refused = [](const nb::python_error& error) { return error.matches(PyExc_TypeError); };
  try {
    if (!wanted.copy.is_none()) {
      nb::object capsule = lend("max_version"_a = version, "copy"_a = wanted.copy);
      copied = wanted.must_copy();
      return capsule;
    }
    return lend("max_version"_a = version);
  } catch (const nb::python_error& error) {
    if (!refused(error)) throw;
  }
  try {
    return lend("max_version"_a = version);
  } catch (const nb::python_error& error) {
    if (!refused(error)) throw;
  }
  return lend();  // the producer is older than DLPack 1 and knows no keyword
}

NDArray from_capsule(nb::handle capsule, bool must_copy, bool may_copy, Where where) {
  const char* name = PyCapsule_GetName(capsule.ptr());
  if (!name) PyErr_Clear();
  const std::string kind = name ? name : "";
  if (kind == kVersioned) {
    auto* tensor =
        static_cast<heddle_dl_managed_tensor_versioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned));
    const bool read_only = tensor->flags & HEDDLE_DL_READ_ONLY;
    return take_capsule<heddle_dl_managed_tensor_versioned>(capsule, kVersioned, "used_dltensor_versioned",
                                                            must_copy || (read_only && may_copy), where);
  }
  if (kind == kUnversioned) {
    return take_capsule<heddle_dl_managed_tensor>(capsule, kUnversioned, "used_dltensor", must_copy, where);
  }
  raise(PyExc_ValueError, kind.starts_with("used_") ? "from_dlpack: the capsule has been consumed already"
                                                    : "from_dlpack: the capsule is none of DLPack");
}

nb::object from_dlpack_object(nb::handle source, nb::handle copy, nb::handle device) {
  const Where where = python_call_site();
  if (!copy.is_none() && !PyBool_Check(copy.ptr())) {
    refuse_type({"from_dlpack", "copy"}, copy, "a bool or None");
  }
  const Wanted wanted{
      copy, device.is_none() ? std::nullopt : std::optional(to_device({"from_dlpack", "device"}, device))};
  NDArray result;
  bool copied = false;
  if (const NDArray* own = array_in(source)) {
    result = from_own(*own, wanted, where);
  } else if (PyCapsule_CheckExact(source.ptr())) {
    result = from_capsule(source, wanted.must_copy(), wanted.may_copy(), where);
  } else {
    if (!nb::hasattr(source, "__dlpack__"))
      refuse_type({"from_dlpack", "x"}, source, "an object with __dlpack__, or a capsule");
    const nb::object capsule = ask_for_capsule(source, wanted, copied);
    result = from_capsule(capsule, wanted.must_copy() && !copied, wanted.may_copy(), where);
  }
  if (!wanted.device || *wanted.device == result.device()) return wrap(std::move(result));
  if (!wanted.may_copy()) {
    raise(PyExc_BufferError, "from_dlpack: the memory is on " + result.device().to_string() + ", not on " +
                                 wanted.device->to_string() + ", which needs a copy");
  }
  {
    const ReleaseGil released;
    result = result.copy_to(*wanted.device, where);
  }
  return wrap(std::move(result));
}

}  // namespace

void normalise_bools(const NDArray& array) {
  auto* bytes = array.data<std::byte>();
  std::transform(bytes, bytes + array.size(), bytes,
                 [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
}

void make_readable(const NDArray& array) {
  if (use_by_this_op(array.var()) == VarUse::none) wait_for(array.engine(), array.var());
}

void make_writable(const NDArray& array) {
  if (use_by_this_op(array.var()) != VarUse::none || is_idle(array.var())) return;
  Engine& engine = array.engine();
  if (has_ended(engine)) {  // the engine runs no ops any more, for example in the child of a fork
    wait_for(engine, array.var());
    return;
  }
  // Waiting for the var would only wait for ops that mutate the array. An empty op that mutates it also runs
  // after the ops that read it.
  const Where where = python_call_site();
  {
    const ReleaseGil released;
    engine.push([] {}, {.read = {array.var()}, .mutate = {array.var()}, .name = "wait for readers"}, where);
  }
  wait_for(engine, array.var());
}

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  buffer->obj = nullptr;
  return guarded<int>(-1, [&] {
    const NDArray& array = *array_in(self);
    check_device(array);
    const char* format = format_of(array.dtype(), raw_halves);
    if (!format) raise(PyExc_BufferError, "the buffer protocol has no bf16; use numpy(), or astype");
    const bool read_only = is_read_only(array);
    check_flags(array, read_only, flags);
    if (read_only) {
      make_readable(array);
    } else {
      make_writable(array);
    }
    fill(*buffer, array, read_only, (flags & PyBUF_FORMAT) ? format : nullptr);
    if (!(flags & PyBUF_ND)) buffer->shape = nullptr;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) buffer->strides = nullptr;
    buffer->obj = nb::borrow(self).release().ptr();
    return 0;
  });
}

void release_buffer(PyObject*, Py_buffer* buffer) { delete static_cast<Export*>(buffer->internal); }

nb::object to_numpy(nb::handle array, bool copy) {
  const CallsPython calling;
  const DType dtype = array_in(array)->dtype();
  raw_halves = true;
  nb::object view;
  try {
    view = nb::steal(PyMemoryView_FromObject(array.ptr()));
  } catch (...) {
    raw_halves = false;
    throw;
  }
  raw_halves = false;
  if (!view.is_valid()) raise_set();
  nb::object result = numpy("asarray")(view);
  if (dtype == DType::bf16) result = result.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  return copy ? result.attr("copy")() : result;
}

bool holds_f64(nb::handle object) {
  if (const NDArray* array = array_in(object)) return array->dtype() == DType::f64;
  if (PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr())) return false;
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    for (const nb::handle one : object)
      if (holds_f64(one)) return true;
    return false;
  }
  if (!nb::hasattr(object, "dtype")) return false;
  const nb::object dtype = object.attr("dtype");
  const nb::str name(dtype);
  return std::string_view(name.c_str()).ends_with("float64");
}

NDArray to_array_for(ArgumentOf of, nb::handle object, DType target, Where where) {
  if (!is_plain(object)) return to_array(of, object, std::nullopt, where);
  if (is_floating(target)) return to_array(of, object, target, where);
  return to_array(of, object, std::nullopt, where, DType::f64);
}

namespace {

template <class T> NDArray array_from(const std::vector<double>& values) {
  return heddle::array(std::vector<T>(values.begin(), values.end()),
                       {static_cast<std::int64_t>(values.size())});
}

// Converts a list or tuple of Python floats without NumPy, which takes ten times as long. Returns nullopt for
// other objects.
std::optional<NDArray> floats_in(nb::handle object, DType dtype) {
  const bool is_list = PyList_CheckExact(object.ptr());
  if (!is_list && !PyTuple_CheckExact(object.ptr())) return std::nullopt;
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  const Py_ssize_t count = PySequence_Size(object.ptr());
  std::vector<double> values(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* one = is_list ? PyList_GetItem(object.ptr(), i) : PyTuple_GetItem(object.ptr(), i);
    if (!PyFloat_CheckExact(one)) return std::nullopt;
    values[static_cast<std::size_t>(i)] = PyFloat_AsDouble(one);
  }
  return dtype == DType::f32 ? array_from<float>(values) : array_from<double>(values);
}

}  // namespace

NDArray to_array(ArgumentOf of, nb::handle object, std::optional<DType> dtype, Where where, DType floats) {
  const CallSite site(where);
  if (const NDArray* array = array_in(object)) {
    if (!dtype || array->dtype() == *dtype) return *array;
    const ReleaseGil released;
    return array->astype(*dtype, where);
  }
  if (const auto made = floats_in(object, dtype.value_or(floats))) return *made;
  if (is_plain(object)) {
    const CallsPython calling;
    const nb::object source = numpy_of(of, object, dtype);
    if (!dtype && nb::cast<bool>(source.attr("dtype").attr("__eq__")("float64")))
      dtype = holds_f64(object) ? DType::f64 : floats;
    return copy_of_numpy(of, object, source, dtype);
  }
  return copy_of_numpy(of, object, object, dtype);
}

void bind_memory(ArrayClass& type) {
  type.def(
          "numpy", [](nb::handle self, bool copy) { return to_numpy(self, copy); }, "copy"_a = false,
          nb::sig("def numpy(self, copy: bool = False) -> numpy.typing.NDArray[Any]"),
          "Waits, and gives the array's memory as a NumPy array, without a copy unless asked for. Ops that "
          "are pushed "
          "later do not wait for what NumPy does with it.")
      .def(
          "__array__",
          [](nb::handle self, nb::handle dtype, nb::handle copy) {
            const nb::object array = to_numpy(self, false);
            if (copy.is_none() && dtype.is_none()) return array;
            if (copy.is_none()) return nb::object(numpy("asarray")(array, "dtype"_a = dtype));
            if (!PyBool_Check(copy.ptr())) refuse_type({"__array__", "copy"}, copy, "a bool or None");
            if (copy.ptr() == Py_True) return nb::object(numpy("array")(array, "dtype"_a = dtype));
            const nb::object cast = numpy("asarray")(array, "dtype"_a = dtype);
            if (!cast.is(array)) raise(PyExc_ValueError, "__array__: another dtype needs a copy");
            return cast;
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: Any = None, copy: bool | None = None) -> "
                  "numpy.typing.NDArray[Any]"))
      .def(
          "tolist",
          [](nb::handle self) -> nb::object {
            // Handles empty arrays without NumPy, which cannot represent some of their shapes.
            const NDArray& array = *array_in(self.ptr());
            if (array.defined() && array.ndim() > 0 && array.shape()[0] == 0) return nb::list();
            return to_numpy(self, false).attr("tolist")();
          },
          nb::sig("def tolist(self) -> Any"))
      .def("__dlpack__", &dlpack, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: "
                   "tuple[int, int] | None = None, copy: bool | None = None) -> Any"))
      .def(
          "__dlpack_device__",
          [](const NDArray& self) {
            const heddle_dl_device device = dlpack_device(self);
            return nb::make_tuple(device.type, device.index);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "__reduce__",
          [](nb::handle self) {
            const NDArray& array = *array_in(self);
            return nb::make_tuple(
                nb::module_::import_("heddle").attr("_rebuild"),
                nb::make_tuple(to_numpy(self, true).attr("tobytes")(), from_dims(array.shape()),
                               name_of(array.dtype()), array.device().to_string(), requires_grad(array)));
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
}

void bind_from_dlpack(nb::module_& m) {
  m.def("from_dlpack", &from_dlpack_object, "x"_a, "copy"_a = nb::none(), "device"_a = nb::none(),
        nb::sig(
            "def from_dlpack(x: Any, copy: bool | None = None, device: DeviceLike | None = None) -> NDArray"),
        "An array on the memory of another library's array, without a copy. Read-only memory is copied, "
        "unless copy is False. The memory of an array of this package keeps its var.");
}

}  // namespace heddle::python
