#include "kernels/kernel_table.h"

#include <heddle/error.h>

namespace heddle {

void KernelTable::insert(const std::string& op, DeviceKind device, std::type_index type, void (*kernel)()) {
  if (!entries_.emplace(std::pair(op, device), Entry{type, kernel}).second) {
    throw Error(op + " has two " + name_of(device) + " kernels");
  }
}

void (*KernelTable::lookup(const std::string& op, DeviceKind device, std::type_index type) const)() {
  const auto entry = entries_.find(std::pair(op, device));
  if (entry == entries_.end()) throw Error(op + " has no " + name_of(device) + " kernel in this build");
  if (entry->second.type != type) {
    throw Error(op + ": its " + name_of(device) + " kernel was registered with another type");
  }
  return entry->second.kernel;
}

const KernelTable& kernels() {
  static const KernelTable table = [] {
    KernelTable filled;
    register_cpu_kernels(filled);
    register_cuda_kernels(filled);
    return filled;
  }();
  return table;
}

}  // namespace heddle
