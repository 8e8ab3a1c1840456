// Maps an operator and a kind of device to the function that computes it.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <typeindex>
#include <unordered_map>

#include <heddle/device.h>

namespace heddle {

// An operator family declares the type of its kernels (using SoftmaxKernel = void(const NDArray& x, const NDArray& y,
// int axis)); every device's kernels of that operator are functions of that type. A kernel runs inside the op.
class KernelTable {
 public:
  // Adds a kernel. `op` is a string literal, since the table keeps the pointer.
  template <class Fn> void add(const char* op, DeviceKind device, Fn* kernel) {
    insert({op, device}, {typeid(Fn), reinterpret_cast<void (*)()>(kernel)});
  }
  // Any thread, once all kernels are added. Throws Error "softmax has no cuda kernel in this build".
  template <class Fn> Fn* find(std::string_view op, DeviceKind device) const {
    return reinterpret_cast<Fn*>(lookup({op, device}, typeid(Fn)));
  }

 private:
  struct Key {
    std::string_view op;
    DeviceKind device;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::string_view>()(key.op) + static_cast<std::size_t>(key.device);
    }
  };
  struct Entry {
    std::type_index type;
    void (*kernel)();
  };

  void insert(Key key, Entry entry);
  void (*lookup(Key key, std::type_index type) const)();

  std::unordered_map<Key, Entry, HashOfKey> entries_;
};

// All kernels of this build; made at first use by calling the register functions below. Immutable afterwards.
const KernelTable& kernels();

// The kernels of one operator, whose name is a literal. The one for the CPU is looked up once, so that an operator that is
// called often on small arrays has a static one:
//
//   static const Kernel<BinaryKernel> kernel("add");
template <class Fn> class Kernel {
 public:
  Kernel(const char* op) : op_(op), cpu_(kernels().find<Fn>(op, DeviceKind::cpu)) {}
  const char* op() const { return op_; }
  Fn* on(DeviceKind device) const {
    return device == DeviceKind::cpu ? cpu_ : kernels().find<Fn>(op_, device);
  }

 private:
  const char* op_;
  Fn* cpu_;
};

// Functions that add all kernels for the CPU, and all kernels for GPUs. A build without CUDA has none for
// GPUs.
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

// Heads the function that registers the GPU kernels of one file, in namespace heddle: it is in a subfolder cuda of its family,
// whose files only a build with CUDA compiles, .cu files by nvcc.
#define HEDDLE_CUDA_KERNELS(name)                \
  void register_cuda_##name(KernelTable& table); \
  void register_cuda_##name(KernelTable& table)

}  // namespace heddle
