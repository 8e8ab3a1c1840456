// Devices, the default one, and the memory of GPUs.
#include "arrays/devices.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include <heddle/gpu_memory.h>

#include "arguments.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

struct Defaults {
  Device base;                 // of set_default_device()
  std::vector<Device> blocks;  // the `with` blocks that the thread is in; they may end in any order
};
thread_local Defaults defaults;

void enter(Device device) { defaults.blocks.push_back(device); }

// Ends the innermost block of this device; false if the thread is in none.
bool leave(Device device) {
  const auto at = std::find(defaults.blocks.rbegin(), defaults.blocks.rend(), device);
  if (at == defaults.blocks.rend()) return false;
  defaults.blocks.erase(std::next(at).base());
  return true;
}

Device device_named(ArgumentOf of, const std::string& name) {
  std::size_t end = 0;
  while (end < name.size() && (std::isalpha(static_cast<unsigned char>(name[end])) || name[end] == '_'))
    ++end;
  const std::string kind = name.substr(0, end);
  std::string digits = name.substr(end);
  if (digits.size() > 2 && digits.front() == '(' && digits.back() == ')') {
    digits = digits.substr(1, digits.size() - 2);
  } else if (digits.size() > 1 && digits.front() == ':') {
    digits = digits.substr(1);
  } else if (!digits.empty()) {
    digits = "x";
  }
  const bool number = digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos;
  const int index = number && !digits.empty() ? std::stoi(digits) : 0;
  if (number && kind == "cpu") return cpu(index);
  if (number && (kind == "gpu" || kind == "cuda")) return gpu(index);
  if (name == "cpu_pinned") return cpu_pinned();
  refuse_value(of, "'" + name + "', and there is no device of that name", "cpu, cpu(1), gpu(0), cpu_pinned");
}

// The device of an array, or of the first array in a list or tuple.
std::optional<Device> device_in(nb::handle object) {
  if (const NDArray* array = array_in(object))
    return array->defined() ? std::optional(array->device()) : std::nullopt;
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) return std::nullopt;
  for (nb::handle one : object)
    if (const NDArray* array = array_in(one); array && array->defined()) return array->device();
  return std::nullopt;
}

Device gpu_in(const char* function, nb::handle device) {
  const Device on = to_device({function, "device"}, device);
  if (on.kind == DeviceKind::cpu) refuse_value({function, "device"}, on.to_string(), "a GPU, or cpu_pinned");
  if (const std::string why = gpu_refusal(on); !why.empty())
    refuse_value({function, "device"}, on.to_string() + ", and " + why, "one that is there");
  return on;
}

bool equal(const Device& self, nb::handle other) {
  try {
    return to_device({"Device.__eq__", "other"}, other) == self;
  } catch (const InvalidArgument&) {
    return false;
  }
}

void bind_class(nb::module_& m) {
  nb::class_<Device>(
      m, "Device",
      "Where data lives and ops run. In a block `with device:` the thread makes its arrays there.")
      .def(
          "__init__",
          [](Device* self, const std::string& name) {
            new (self) Device(device_named({"Device", "name"}, name));
          },
          "name"_a)
      .def_prop_ro(
          "kind",
          [](const Device& self) { return self.kind == DeviceKind::cuda ? "gpu" : name_of(self.kind); })
      .def_ro("index", &Device::index)
      .def("__repr__", &Device::to_string)
      .def(
          "__eq__",
          [](const Device& self, nb::handle other) -> nb::object {
            const bool is_name = PyUnicode_Check(other.ptr());
            if (!is_name && !nb::isinstance<Device>(other)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(equal(self, other));
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Device& self) { return static_cast<int>(self.kind) * 1000 + self.index; })
      .def(
          "__reduce__",
          [](const Device& self) {
            return nb::make_tuple(nb::module_::import_("heddle").attr("Device"),
                                  nb::make_tuple(self.to_string()));
          },
          nb::sig("def __reduce__(self) -> tuple[object, ...]"))
      .def(
          "__enter__",
          [](const Device& self) {
            enter(self);
            return self;
          },
          nb::sig("def __enter__(self) -> Device"))
      .def(
          "__exit__",
          [](const Device& self, const nb::args&) {
            if (!leave(self))
              raise(PyExc_RuntimeError, "Device.__exit__: this thread has not entered the block");
          },
          nb::sig("def __exit__(self, *args: object) -> None"));
}

void bind_memory_of_gpus(nb::module_& m) {
  nb::class_<GpuMemoryStats>(m, "GpuMemoryStats", "Bytes of a GPU's memory.")
      .def_ro("in_use", &GpuMemoryStats::in_use, "Of arrays and of kernels' scratch memory.")
      .def_ro("cached", &GpuMemoryStats::cached, "Kept for reuse; gpu_memory_trim() returns them.")
      .def_ro("free", &GpuMemoryStats::free, "That the GPU has left; 0 for cpu_pinned.")
      .def("__repr__", [](const GpuMemoryStats& self) {
        return "GpuMemoryStats(in_use=" + std::to_string(self.in_use) +
               ", cached=" + std::to_string(self.cached) + ", free=" + std::to_string(self.free) + ")";
      });
  m.def(
      "gpu_memory_stats",
      [](nb::handle device) {
        const Device on = gpu_in("gpu_memory_stats", device);
        const ReleaseGil released;
        return gpu_memory_stats(on);
      },
      "device"_a = "gpu(0)", nb::sig("def gpu_memory_stats(device: DeviceLike = 'gpu(0)') -> GpuMemoryStats"),
      "What this process takes on a GPU, or as page-locked memory (cpu_pinned), and what is left.");
  m.def(
      "gpu_memory_trim",
      [](nb::handle device) {
        const Device on = gpu_in("gpu_memory_trim", device);
        const ReleaseGil released;
        gpu_memory_trim(on);
      },
      "device"_a = "gpu(0)", nb::sig("def gpu_memory_trim(device: DeviceLike = 'gpu(0)') -> None"),
      "Returns memory that is kept for reuse to the GPU, or page-locked memory to the system.");
}

}  // namespace

Device to_device(ArgumentOf of, nb::handle object) {
  if (nb::isinstance<Device>(object)) return *nb::inst_ptr<Device>(object);
  if (PyUnicode_Check(object.ptr())) return device_named(of, text_in(of, object));
  refuse_type(of, object, "a device, such as heddle.cpu() or 'cpu'");
}

Device default_device() { return defaults.blocks.empty() ? defaults.base : defaults.blocks.back(); }

DefaultDevice::DefaultDevice(Device device) : device_(device) { enter(device); }
DefaultDevice::~DefaultDevice() { leave(device_); }

NDArray placed(Device device, nb::handle object, const NDArray& made, Where where) {
  if (!made.defined() || made.device() == device || array_in(object)) return made;
  const ReleaseGil released;
  return made.copy_to(device, where);
}

std::optional<Device> device_among(PyObject* const* objects, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (const auto device = objects[i] ? device_in(objects[i]) : std::nullopt) return device;
  return std::nullopt;
}

void bind_devices(nb::module_& m) {
  bind_class(m);
  m.def("cpu", &cpu, "index"_a = 0, "A device on the machine's memory.");
  m.def("gpu", &gpu, "index"_a = 0, "A GPU.");
  m.def("cpu_pinned", &cpu_pinned, "Page-locked memory of the CPU.");
  m.def("gpu_count", &gpu_count, "How many GPUs this process may use.");
  m.def("default_device", &default_device, "Where this thread makes arrays if no device is asked for.");
  m.def(
      "set_default_device",
      [](nb::handle device) {
        defaults.base = to_device({"set_default_device", "device"}, device);
      },
      "device"_a, nb::sig("def set_default_device(device: DeviceLike) -> None"),
      "Where this thread makes arrays from now on, outside of `with device:` blocks.");
  bind_memory_of_gpus(m);
}

}  // namespace heddle::python
