// Exchange of memory by DLPack and, on GPUs, by the CUDA array interface.
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <heddle/autograd.h>
#include <heddle/dlpack.h>
#include <heddle/stream.h>

#include "arguments.h"
#include "arrays/array_parts.h"
#include "arrays/cuda_interface.h"
#include "call_site.h"
#include "engine/engines.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

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

// The device on which a receiver wants the memory; nullopt: where it is.
std::optional<Device> wanted_device(const NDArray& array, nb::handle wanted) {
  if (wanted.is_none()) return std::nullopt;
  const std::array<std::int64_t, 2> pair = pair_of({"__dlpack__", "dl_device"}, wanted);
  const heddle_dl_device own = dlpack_device(array);
  if (pair[0] == own.type && pair[1] == own.index) return std::nullopt;
  const bool gpus = gpu_count() > 0;
  if (pair[0] == HEDDLE_DL_CPU && pair[1] == 0) return cpu();
  if (pair[0] == HEDDLE_DL_CUDA && pair[1] >= 0 && pair[1] < gpu_count())
    return gpu(static_cast<int>(pair[1]));
  if (pair[0] == HEDDLE_DL_CUDA_HOST && pair[1] == 0 && gpus) return cpu_pinned();
  raise(PyExc_BufferError, "__dlpack__: there is no device (" + std::to_string(pair[0]) + ", " +
                               std::to_string(pair[1]) + ") for dl_device");
}

// A capsule of what `lend` returns. `flags`: to be added to those of the tensor.
template <class Lend> nb::object capsule_of(const Lend& lend, std::uint64_t flags, const char* name) {
  decltype(lend()) tensor;
  {
    const ReleaseGil released;
    tensor = lend();
  }
  using Tensor = std::remove_pointer_t<decltype(tensor)>;
  if constexpr (std::is_same_v<Tensor, heddle_dl_managed_tensor_versioned>) tensor->flags |= flags;
  PyObject* capsule = PyCapsule_New(tensor, name, destroy_capsule<Tensor>);
  if (capsule) return nb::steal(capsule);
  tensor->deleter(tensor);
  raise_set();
}

bool is_on_gpu(Device device) { return device.kind == DeviceKind::cuda; }

// The stream of __dlpack__'s receiver. Without one it is the legacy default stream; -1: the receiver wants no order.
DLPackStream receivers_stream(nb::handle stream) {
  const ArgumentOf of{"__dlpack__", "stream"};
  if (stream.is_none()) return {reinterpret_cast<void*>(std::uintptr_t{1})};
  return int_argument(of, stream) == -1 ? kNoOrder : to_stream(of, stream);
}

nb::object dlpack(const NDArray& self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                  nb::handle copy) {
  const Where where = python_call_site();
  if (!copy.is_none() && !PyBool_Check(copy.ptr()))
    refuse_type({"__dlpack__", "copy"}, copy, "a bool or None");
  const std::optional<Device> elsewhere = wanted_device(self, dl_device);
  if (elsewhere && copy.ptr() == Py_False) {
    raise(PyExc_BufferError, "__dlpack__: the array is on " + self.device().to_string() + ", not on " +
                                 elsewhere->to_string() + ", which needs a copy");
  }
  const bool gpu = is_on_gpu(elsewhere.value_or(self.device()));
  if (!stream.is_none() && !gpu) raise(PyExc_ValueError, "__dlpack__: stream is for arrays of a GPU");
  const bool versioned =
      !max_version.is_none() && pair_of({"__dlpack__", "max_version"}, max_version)[0] >= 1;
  const bool copied = !elsewhere && copy.ptr() == Py_True;
  const bool read_only = is_read_only(self) && !copied && !elsewhere;
  if (read_only && !versioned) {
    raise(PyExc_BufferError,
          "__dlpack__: the array is read-only here, which receivers from before DLPack 1 cannot be told");
  }
  const DLPackStream theirs = gpu ? receivers_stream(stream) : DLPackStream{};
  if (!gpu && !elsewhere) make_writable(self);
  const auto lent = [&] { return elsewhere ? self.detach().copy_to(*elsewhere, where) : self; };
  if (versioned) {
    const std::uint64_t flags = elsewhere ? HEDDLE_DL_IS_COPIED : read_only ? HEDDLE_DL_READ_ONLY : 0;
    return capsule_of(
        [&] { return gpu ? to_dlpack(lent(), theirs, copied, where) : to_dlpack(lent(), copied, where); },
        flags, kVersioned);
  }
  return capsule_of(
      [&] {
        return gpu ? to_dlpack_unversioned(lent(), theirs, copied, where)
                   : to_dlpack_unversioned(lent(), copied, where);
      },
      0, kUnversioned);
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
NDArray take_capsule(nb::handle capsule, const char* name, const char* used, bool copy,
                     const std::optional<DLPackStream>& stream, Where where) {
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!tensor) raise_set();
  Tensor* ours = with_gil(tensor);
  NDArray result;
  try {
    const ReleaseGil released;
    result = stream ? from_dlpack(ours, *stream, copy, where) : from_dlpack(ours, copy, where);
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
// `stream`: the stream on which memory of a GPU will be used; reset if the object knows no streams.
nb::object ask_for_capsule(nb::handle source, const Wanted& wanted, std::optional<DLPackStream>& stream,
                           bool& copied) {
  const CallsPython calling;
  const nb::object lend = source.attr("__dlpack__");
  nb::dict keywords;
  if (stream) keywords["stream"] = reinterpret_cast<std::uintptr_t>(stream->native);
  keywords["max_version"] = nb::make_tuple(1, 1);
  if (!wanted.copy.is_none()) keywords["copy"] = wanted.copy;
  for (const char* dropped : {"copy", "max_version", "stream"}) {
    if (!keywords.contains(dropped)) continue;
    try {
      nb::object capsule = lend(**keywords);
      copied = wanted.must_copy() && keywords.contains("copy");
      return capsule;
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
    PyDict_DelItemString(keywords.ptr(), dropped);
  }
  stream.reset();
  return lend();  // the producer is older than DLPack 1 and knows no keyword
}

NDArray from_capsule(nb::handle capsule, bool must_copy, bool may_copy,
                     const std::optional<DLPackStream>& stream, Where where) {
  const char* name = PyCapsule_GetName(capsule.ptr());
  if (!name) PyErr_Clear();
  const std::string kind = name ? name : "";
  if (kind == kVersioned) {
    auto* tensor =
        static_cast<heddle_dl_managed_tensor_versioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned));
    const bool read_only = tensor->flags & HEDDLE_DL_READ_ONLY;
    return take_capsule<heddle_dl_managed_tensor_versioned>(
        capsule, kVersioned, "used_dltensor_versioned", must_copy || (read_only && may_copy), stream, where);
  }
  if (kind == kUnversioned) {
    return take_capsule<heddle_dl_managed_tensor>(capsule, kUnversioned, "used_dltensor", must_copy, stream,
                                                  where);
  }
  raise(PyExc_ValueError, kind.starts_with("used_") ? "from_dlpack: the capsule has been consumed already"
                                                    : "from_dlpack: the capsule is none of DLPack");
}

// The compute stream of the GPU on which the object's memory is; nullopt: it is on no GPU, or does not say so.
std::optional<DLPackStream> stream_for(nb::handle source) {
  if (!nb::hasattr(source, "__dlpack_device__")) return std::nullopt;
  nb::object device;
  {
    const CallsPython calling;
    device = source.attr("__dlpack_device__")();
  }
  const std::array<std::int64_t, 2> pair = pair_of({"from_dlpack", "__dlpack_device__()"}, device);
  if (pair[0] != HEDDLE_DL_CUDA) return std::nullopt;
  return DLPackStream{current_engine().stream(gpu(static_cast<int>(pair[1]))).native()};
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
    result = from_capsule(source, wanted.must_copy(), wanted.may_copy(), std::nullopt, where);
  } else if (!nb::hasattr(source, "__dlpack__") && nb::hasattr(source, "__cuda_array_interface__")) {
    result = from_cuda_interface(source, wanted.must_copy(), where);
  } else {
    if (!nb::hasattr(source, "__dlpack__"))
      refuse_type({"from_dlpack", "x"}, source, "an object with __dlpack__, or a capsule");
    std::optional<DLPackStream> stream = stream_for(source);
    const nb::object capsule = ask_for_capsule(source, wanted, stream, copied);
    result = from_capsule(capsule, wanted.must_copy() && !copied, wanted.may_copy(), stream, where);
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

void bind_dlpack(ArrayClass& type) {
  type.def("__dlpack__", &dlpack, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: "
                   "tuple[int, int] | None = None, copy: bool | None = None) -> Any"))
      .def_prop_ro("__cuda_array_interface__", &cuda_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, Any]"))
      .def(
          "order_before",
          [](const NDArray& self, nb::handle stream) {
            const Where where = python_call_site();
            const DLPackStream theirs = to_stream({"order_before", "stream"}, stream);
            const ReleaseGil released;
            order_before(self, theirs, where);
          },
          "stream"_a, nb::sig("def order_before(self, stream: int) -> None"),
          "What a CUDA stream of another library gets from now on runs after all ops so far on this array of "
          "a GPU.")
      .def(
          "order_after",
          [](const NDArray& self, nb::handle stream) {
            const Where where = python_call_site();
            const DLPackStream theirs = to_stream({"order_after", "stream"}, stream);
            const ReleaseGil released;
            order_after(self, theirs, where);
          },
          "stream"_a, nb::sig("def order_after(self, stream: int) -> None"),
          "Later ops on this array of a GPU run after what a CUDA stream of another library has now.")
      .def(
          "__dlpack_device__",
          [](const NDArray& self) {
            const heddle_dl_device device = dlpack_device(self);
            return nb::make_tuple(device.type, device.index);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

void bind_from_dlpack(nb::module_& m) {
  m.def("from_dlpack", &from_dlpack_object, "x"_a, "copy"_a = nb::none(), "device"_a = nb::none(),
        nb::sig(
            "def from_dlpack(x: Any, copy: bool | None = None, device: DeviceLike | None = None) -> NDArray"),
        "An array on the memory of another library's array, without a copy. Read-only memory is copied, "
        "unless copy is False. The memory of an array of this package keeps its var.");
}

}  // namespace heddle::python
