// Exchange of the memory of arrays with other libraries: NumPy, the buffer protocol, DLPack.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
#include <heddle/memory_hold.h>
#include <heddle/var_use.h>

#include "arguments.h"
#include "arrays/array_parts.h"
#include "arrays/cuda_interface.h"
#include "arrays/numpy.h"
#include "call_site.h"
#include "engine/engines.h"

namespace heddle::python {

bool is_read_only(const NDArray& array) {
  const VarUse use = use_by_this_op(array.var());
  if (use != VarUse::none) return use == VarUse::read;
  return requires_grad(array) || array.overlaps_itself();
}

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

// Whether the array is contiguous in Fortran order: the first axis has the stride 1.
bool is_column_major(const NDArray& array) {
  std::int64_t stride = 1;
  for (int i = 0; i < array.ndim(); ++i) {
    if (array.shape()[i] != 1 && array.strides()[i] != stride) return false;
    stride *= array.shape()[i];
  }
  return true;
}

// The shape and the strides in bytes of a buffer that was exported by the buffer protocol, and its memory, which stays when
// the array's network is moved to another device.
struct Export {
  Py_ssize_t shape[kMaxDims], strides[kMaxDims];
  std::shared_ptr<const void> memory;
};

void fill(Py_buffer& buffer, const NDArray& array, bool read_only, const char* format) {
  const auto size = static_cast<Py_ssize_t>(size_of(array.dtype()));
  auto dims = std::make_unique<Export>();
  for (int i = 0; i < array.ndim(); ++i) {
    dims->shape[i] = static_cast<Py_ssize_t>(array.shape()[i]);
    // Sets a stride that overflows to 0. It is never used: the axis has one element, or the array has none.
    if (__builtin_mul_overflow(array.strides()[i], size, &dims->strides[i])) dims->strides[i] = 0;
  }
  dims->memory = hold_memory(array.storage());
  buffer.buf = const_cast<std::byte*>(array.data<const std::byte>());
  buffer.len = static_cast<Py_ssize_t>(array.size()) * size;
  buffer.itemsize = size;
  buffer.readonly = read_only;
  buffer.ndim = array.ndim();
  buffer.format = const_cast<char*>(format);
  buffer.shape = dims->shape;
  buffer.strides = dims->strides;
  buffer.suboffsets = nullptr;
  buffer.internal = dims.release();
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

NDArray on_cpu(const NDArray& array) {
  if (!array.defined() || array.device().kind != DeviceKind::cuda) return array;
  const Where where = python_call_site();
  const ReleaseGil released;
  return array.detach().copy_to(cpu(), where);
}

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
  if (nb::hasattr(object, "__cuda_array_interface__")) {
    const NDArray made = from_cuda_interface(object, true, where);
    const ReleaseGil released;
    return dtype && made.dtype() != *dtype ? made.astype(*dtype, where) : made;
  }
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
            return to_numpy(wrap(on_cpu(array)), false).attr("tolist")();
          },
          nb::sig("def tolist(self) -> Any"))
      .def(
          "__reduce__",
          [](nb::handle self) {
            const NDArray& array = *array_in(self);
            return nb::make_tuple(nb::module_::import_("heddle").attr("_rebuild"),
                                  nb::make_tuple(to_numpy(wrap(on_cpu(array)), true).attr("tobytes")(),
                                                 from_dims(array.shape()), name_of(array.dtype()),
                                                 array.device().to_string(), requires_grad(array)));
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  bind_dlpack(type);
}

}  // namespace heddle::python
