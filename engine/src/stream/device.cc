#include <heddle/device.h>
#include <heddle/error.h>
#include <heddle/gpu_memory.h>

#include "stream/gpu.h"

namespace heddle {
namespace {

// The text of the call that makes the device, "gpu(1)". There is one cpu_pinned, without an index.
std::string written(DeviceKind kind, int index) {
  if (kind == DeviceKind::cpu_pinned) return "cpu_pinned";
  return (kind == DeviceKind::cuda ? "gpu(" : "cpu(") + std::to_string(index) + ")";
}

Device checked(DeviceKind kind, int index) {
  if (index < 0) throw InvalidArgument(written(kind, index) + ": the index must not be negative");
  return {kind, index};
}

}  // namespace

std::string Device::to_string() const { return written(kind, index); }

Device cpu(int index) { return checked(DeviceKind::cpu, index); }
Device gpu(int index) { return checked(DeviceKind::cuda, index); }
Device cpu_pinned() { return {DeviceKind::cpu_pinned, 0}; }

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::cpu_pinned:
      return "cpu_pinned";
  }
  return "no device";
}

void detail::check_memory_of(const char* call, Device device) {
  if (device.kind == DeviceKind::cpu)
    throw InvalidArgument(std::string(call) + ": " + device.to_string() + "; wanted a GPU or cpu_pinned");
  if (const std::string why = gpu_refusal(device); !why.empty())
    throw InvalidArgument(std::string(call) + ": there is no memory of " + device.to_string() + ": " + why);
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.to_string(); }

}  // namespace heddle
