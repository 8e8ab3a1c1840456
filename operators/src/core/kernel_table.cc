#include "core/kernel_table.h"

#include <cstdint>

#include <heddle/error.h>

namespace heddle {
namespace {

constexpr std::size_t kProbes = 8;  // number of slots in which an address may be

// Fibonacci hashing: neighbouring addresses go to distant slots.
std::size_t first_slot(const char* op, DeviceKind device) {
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(op));
  return static_cast<std::size_t>(
      (address * 4 + static_cast<std::uint64_t>(device)) * std::uint64_t{0x9E3779B97F4A7C15} >> 32);
}

}  // namespace

void KernelTable::insert(const std::string& op, DeviceKind device, std::type_index type, void (*kernel)()) {
  if (!entries_.emplace(std::pair(op, device), Entry{type, kernel}).second) {
    throw Error(op + " has two " + name_of(device) + " kernels");
  }
}

const KernelTable::Entry& KernelTable::entry_of(const char* op, DeviceKind device) const {
  const std::size_t first = first_slot(op, device);
  Slot* free = nullptr;
  for (std::size_t i = 0; i < kProbes && !free; ++i) {
    Slot& slot = known_->all[(first + i) % Slots::kSize];
    const Known* known = slot.load(std::memory_order_acquire);
    if (!known) {
      free = &slot;
    } else if (known->op == op && known->device == device) {
      return *known->entry;
    }
  }
  const auto at = entries_.find(std::pair(std::string(op), device));
  if (at == entries_.end())
    throw Error(std::string(op) + " has no " + name_of(device) + " kernel in this build");
  if (free) {
    const Known* none = nullptr;
    auto made = std::make_unique<const Known>(Known{op, device, &at->second});
    if (free->compare_exchange_strong(none, made.get(), std::memory_order_release, std::memory_order_relaxed))
      made.release();  // the table keeps the entry
  }
  return at->second;
}

void (*KernelTable::lookup(const char* op, DeviceKind device, std::type_index type) const)() {
  const Entry& entry = entry_of(op, device);
  if (entry.type != type) {
    throw Error(std::string(op) + ": its " + name_of(device) + " kernel was registered with another type");
  }
  return entry.kernel;
}

const KernelTable& kernels() {
  static const KernelTable table = [] {
    KernelTable filled;
    cpu_kernels::register_all(filled);
    register_cuda_kernels(filled);
    return filled;
  }();
  return table;
}

}  // namespace heddle
