// Maps an operator and a kind of device to the function that computes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include <heddle/device.h>

namespace heddle {

// An operator family declares the type of its kernels (using SoftmaxKernel = void(const NDArray& x, const NDArray& y,
// int axis)); every device's kernels of that operator are functions of that type. A kernel runs inside the op.
class KernelTable {
 public:
  template <class Fn> void add(const std::string& op, DeviceKind device, Fn* kernel) {
    insert(op, device, typeid(Fn), reinterpret_cast<void (*)()>(kernel));
  }
  // `op` is a literal, or lives as long as the table: after the first call it is looked up by its address.
  // Any thread, once all kernels are added. Throws Error "softmax has no cuda kernel in this build".
  template <class Fn> Fn* find(const char* op, DeviceKind device) const {
    return reinterpret_cast<Fn*>(lookup(op, device, typeid(Fn)));
  }

 private:
  struct Entry {
    std::type_index type;
    void (*kernel)();
  };
  // The cached entry of an address that was looked up.
  struct Known {
    const char* op;
    DeviceKind device;
    const Entry* entry;
  };
  using Slot = std::atomic<const Known*>;
  // Addresses are hashed to the slots; each slot is set once, and read without a lock.
  struct Slots {
    static constexpr std::size_t kSize = 2048;  // several times the number of operator names
    std::array<Slot, kSize> all{};
    ~Slots() {
      for (Slot& slot : all) delete slot.load();
    }
  };

  void insert(const std::string& op, DeviceKind device, std::type_index type, void (*kernel)());
  void (*lookup(const char* op, DeviceKind device, std::type_index type) const)();
  const Entry& entry_of(const char* op, DeviceKind device) const;

  std::map<std::pair<std::string, DeviceKind>, Entry, std::less<>> entries_;
  std::unique_ptr<Slots> known_ = std::make_unique<Slots>();
};

// All kernels of this build; made at first use by calling the register functions below. Immutable afterwards.
const KernelTable& kernels();

// All kernels for the CPU, and for GPUs, of which a build without CUDA has none.
namespace cpu_kernels {
void register_all(KernelTable& table);
}
void register_cuda_kernels(KernelTable& table);

// Heads the function that registers the CPU kernels of one file, in namespace heddle::cpu_kernels. The build makes the list of these
// functions by looking for this word in the sources of the module (cmake/registrations.cmake). CMake also chooses by it which files
// are compiled as kernels: run it again where HEDDLE_KERNEL_FILE is not declared.
#define HEDDLE_CPU_KERNELS(name)            \
  static_assert(HEDDLE_KERNEL_FILE);        \
  void register_##name(KernelTable& table); \
  void register_##name(KernelTable& table)

}  // namespace heddle
