// Which function computes an operator on which kind of device.
#pragma once

#include <map>
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
  // Throws Error "softmax has no cuda kernel in this build".
  template <class Fn> Fn* find(const std::string& op, DeviceKind device) const {
    return reinterpret_cast<Fn*>(lookup(op, device, typeid(Fn)));
  }

 private:
  void insert(const std::string& op, DeviceKind device, std::type_index type, void (*kernel)());
  void (*lookup(const std::string& op, DeviceKind device, std::type_index type) const)();
  struct Entry {
    std::type_index type;
    void (*kernel)();
  };
  std::map<std::pair<std::string, DeviceKind>, Entry, std::less<>> entries_;
};

// All kernels of this build; made at first use by calling the register functions below. Immutable afterwards.
const KernelTable& kernels();

// cpu/register.cc calls one register function a file of kernels.
void register_cpu_kernels(KernelTable& table);
// cuda/register.cu, or no_cuda.cc in a build without CUDA.
void register_cuda_kernels(KernelTable& table);

}  // namespace heddle
