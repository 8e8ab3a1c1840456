#include <heddle/device.h>
#include <heddle/error.h>

namespace heddle {

std::string Device::to_string() const {
  return std::string(name_of(kind)) + "(" + std::to_string(index) + ")";
}

Device cpu(int index) {
  if (index < 0) throw InvalidArgument("cpu(" + std::to_string(index) + "): the index must not be negative");
  return {DeviceKind::cpu, index};
}

const char* name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.to_string(); }

}  // namespace heddle
