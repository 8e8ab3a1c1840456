// Where data lives and ops run.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace heddle {

enum class DeviceKind : std::uint8_t { cpu, cuda };
inline constexpr int kDeviceKinds = 2;

// cpu(0), cpu(1) ... are separate devices on one machine's memory: model-parallel programs run on any of them.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  std::string to_string() const;  // "cpu(0)"
};

Device cpu(int index = 0);  // throws InvalidArgument if index < 0
const char* name_of(DeviceKind kind);
std::ostream& operator<<(std::ostream& out, const Device& device);

}  // namespace heddle
