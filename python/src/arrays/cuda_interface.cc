#include "arrays/cuda_interface.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include <heddle/gpu_event.h>
#include <heddle/stream.h>

#include "arrays/array_parts.h"
#include "call_site.h"
#include "engine/engines.h"
#include "interpreter.h"

namespace heddle::python {

// A stream by its number in DLPack and in the CUDA array interface. 1: the legacy default stream, 2: that of the thread.
DLPackStream to_stream(ArgumentOf of, nb::handle stream) {
  const std::int64_t number = int_argument(of, stream);
  if (number > 0) return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(number))};
  raise(PyExc_ValueError,
        std::string(of.function) + ": " + of.argument + " is " + std::to_string(number) +
            "; wanted is 1, the legacy default stream, 2, that of the thread, or a cudaStream_t");
}

namespace {

constexpr int kInterfaceVersion = 3;

struct TypeString {
  DType dtype;
  const char* text;
};
constexpr TypeString kTypeStrings[] = {{DType::f32, "<f4"}, {DType::f64, "<f8"}, {DType::f16, "<f2"},
                                       {DType::i8, "|i1"},  {DType::i16, "<i2"}, {DType::i32, "<i4"},
                                       {DType::i64, "<i8"}, {DType::u8, "|u1"},  {DType::u16, "<u2"},
                                       {DType::u32, "<u4"}, {DType::u64, "<u8"}, {DType::boolean, "|b1"}};

// NumPy's rule: "=", "<" and "|" are one for these machines and single bytes.
DType dtype_of_typestr(const std::string& text) {
  for (const TypeString& one : kTypeStrings)
    if (text.size() > 1 && text[0] != '>' && text.substr(1) == one.text + 1) return one.dtype;
  raise(PyExc_TypeError, "__cuda_array_interface__: there is no dtype for '" + text + "'");
}

}  // namespace

nb::object cuda_interface(const NDArray& self) {
  const Where where = python_call_site();
  if (self.device().kind != DeviceKind::cuda)
    raise(PyExc_AttributeError,
          "__cuda_array_interface__: the array is on " + self.device().to_string() + ", not on a GPU");
  const auto* const type = std::find_if(std::begin(kTypeStrings), std::end(kTypeStrings),
                                        [&](const TypeString& one) { return one.dtype == self.dtype(); });
  if (type == std::end(kTypeStrings))
    raise(PyExc_AttributeError,
          "__cuda_array_interface__: the interface has no bf16; use __dlpack__, or astype");
  DLPackStream stream;
  heddle_dl_managed_tensor_versioned* loan = nullptr;
  {
    const ReleaseGil released;
    stream = ordered_stream(self, where);
    loan = to_dlpack(self, stream, false, where);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(loan->tensor.data);
  loan->deleter(loan);  // the receiver holds the array itself, as the interface says
  nb::dict all;
  all["shape"] = from_dims(self.shape());
  all["typestr"] = type->text;
  all["data"] = nb::make_tuple(address, is_read_only(self));
  all["version"] = kInterfaceVersion;
  all["strides"] = nb::none();
  if (!self.is_contiguous()) {
    nb::list strides;
    for (int i = 0; i < self.ndim(); ++i)
      strides.append(self.strides()[i] * static_cast<std::int64_t>(size_of(self.dtype())));
    all["strides"] = nb::tuple(strides);
  }
  all["stream"] = reinterpret_cast<std::uintptr_t>(stream.native);
  return all;
}

namespace {

// A loan that holds the Python object whose memory it is.
struct HeldObject {
  heddle_dl_managed_tensor_versioned managed{};
  Dims shape, strides;
  Reference object;
};

}  // namespace

NDArray from_cuda_interface(nb::handle source, bool copy, Where where) {
  nb::object found;
  {
    const CallsPython calling;
    found = source.attr("__cuda_array_interface__");
  }
  const ArgumentOf of{"from_dlpack", "__cuda_array_interface__"};
  if (!PyDict_Check(found.ptr())) refuse_type(of, found, "a dict");
  const auto entry = [&](const char* name) {
    PyObject* const value = PyDict_GetItemString(found.ptr(), name);
    return value ? nb::borrow(value) : nb::object(nb::none());
  };
  const nb::object type = entry("typestr"), mask = entry("mask"), strides = entry("strides"),
                   stream = entry("stream");
  if (!mask.is_none()) raise(PyExc_ValueError, "from_dlpack: a masked array of the CUDA array interface");
  if (!PyUnicode_Check(type.ptr())) refuse_type({"from_dlpack", "typestr"}, type, "a str");
  const nb::object data = entry("data");
  if (!PyTuple_Check(data.ptr()) || PyTuple_Size(data.ptr()) != 2)
    refuse_type({"from_dlpack", "data"}, data, "a tuple of an address and a bool");
  const std::int64_t address = int_argument({"from_dlpack", "data"}, PyTuple_GetItem(data.ptr(), 0));
  const DType dtype = dtype_of_typestr(nb::cast<nb::str>(type).c_str());
  auto held = std::make_unique<HeldObject>();
  held->shape = to_dims({"from_dlpack", "shape"}, entry("shape"));
  heddle_dl_tensor& tensor = held->managed.tensor;
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  if (!strides.is_none()) {
    held->strides = to_dims({"from_dlpack", "strides"}, strides);
    if (held->strides.size() != held->shape.size())
      raise(PyExc_ValueError,
            "from_dlpack: the CUDA array interface has another number of strides than of axes");
    for (int i = 0; i < held->strides.size(); ++i) {
      if (held->strides[i] % bytes != 0)
        raise(PyExc_ValueError,
              "from_dlpack: a stride of the CUDA array interface is no multiple of the element");
      held->strides[i] /= bytes;
    }
    tensor.strides = &held->strides[0];
  }
  const bool empty = std::find(held->shape.begin(), held->shape.end(), 0) != held->shape.end();
  tensor.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  const Device device = empty ? gpu(0) : gpu_of_memory(tensor.data);
  held->managed.version = {1, 0};
  held->managed.flags = PyTuple_GetItem(data.ptr(), 1) == Py_True && !copy ? HEDDLE_DL_READ_ONLY : 0;
  tensor.device = {HEDDLE_DL_CUDA, device.index};
  tensor.ndim = held->shape.size();
  tensor.shape = &held->shape[0];
  const NDArray like({0}, dtype);
  heddle_dl_managed_tensor* const coded = to_dlpack_unversioned(like);  // for the code of the dtype
  tensor.dtype = coded->tensor.dtype;
  coded->deleter(coded);
  held->managed.manager_ctx = held.get();
  held->managed.deleter = [](heddle_dl_managed_tensor_versioned* self) {
    delete static_cast<HeldObject*>(self->manager_ctx);
  };
  // Without a stream the interface asks for no order.
  const DLPackStream theirs = stream.is_none() ? DLPackStream{current_engine().stream(device).native()}
                                               : to_stream({"from_dlpack", "stream"}, stream);
  held->object = Reference(nb::borrow(source));
  const ReleaseGil released;
  NDArray result = from_dlpack(&held->managed, theirs, copy, where);
  held.release();
  return result;
}

}  // namespace heddle::python
