// Where data lives and ops run.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace heddle {

enum class DeviceKind : std::uint8_t {
  cpu,
  cuda,        // a GPU
  cpu_pinned,  // page-locked memory of the CPU: a GPU copies from and to it while it computes
};

// cpu(0), cpu(1) ... are separate devices in the memory of one machine, so that programs for several devices
// run on a machine without GPUs.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
  std::string to_string() const;  // "cpu(0)", "gpu(1)", "cpu_pinned"
};

Device cpu(int index = 0);  // throws InvalidArgument if index < 0
Device gpu(int index = 0);  // throws as cpu() does; a GPU that does not exist is an error at its first use
Device cpu_pinned();

// What a stream of a device is for. Lanes of one device run at the same time, as its copy engines do.
enum class Lane : std::uint8_t { compute, copy_in, copy_out, communication };
const char* name_of(Lane lane);

// How many GPUs this process may use: 0 without a driver, and in a build without CUDA. Throws Error if the driver
// is there but does not answer.
int gpu_count();

// The name of the back end: "cpu", "cuda", "cpu_pinned".
const char* name_of(DeviceKind kind);
std::ostream& operator<<(std::ostream& out, const Device& device);

}  // namespace heddle
