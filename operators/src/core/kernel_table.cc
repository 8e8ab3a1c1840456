#include "core/kernel_table.h"

#include <string>

#include <heddle/error.h>

namespace heddle {

void KernelTable::insert(Key key, Entry entry) {
  if (!entries_.emplace(key, entry).second) {
    throw Error(std::string(key.op) + " has two " + name_of(key.device) + " kernels");
  }
}

void (*KernelTable::lookup(Key key, std::type_index type) const)() {
  const auto at = entries_.find(key);
  if (at == entries_.end())
    throw Error(std::string(key.op) + " has no " + name_of(key.device) + " kernel in this build");
  if (at->second.type != type) {
    throw Error(std::string(key.op) + ": its " + name_of(key.device) +
                " kernel was registered with another type");
  }
  return at->second.kernel;
}

const KernelTable& kernels() {
  static const KernelTable& table = *[] {
    auto* const filled = new KernelTable;
    cpu_kernels::register_all(*filled);
    register_cuda_kernels(*filled);
    return filled;
  }();
  return table;
}

}  // namespace heddle
