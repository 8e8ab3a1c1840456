// The device on which a thread makes arrays.
#pragma once

#include <cstddef>
#include <optional>

#include <heddle/device.h>

#include "arrays/array.h"

namespace heddle::python {

// The device of arrays that this thread makes where none is asked for: that of the innermost `with device:` block, else
// that of set_default_device(), else cpu(0).
Device default_device();

// Makes a device this thread's default one while the object lives.
class DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device device_;
};

// `made`, which was made of `object`, on this device, unless the object is a heddle.NDArray: arrays of Heddle stay where they
// are, lists and arrays of NumPy follow the array that they are used with.
NDArray placed(Device device, nb::handle object, const NDArray& made, Where where);
// The device of the first object that is a heddle.NDArray, or a list or tuple with one; empty without any. Objects may be null.
std::optional<Device> device_among(PyObject* const* objects, std::size_t count);

void bind_devices(nb::module_& m);

}  // namespace heddle::python
