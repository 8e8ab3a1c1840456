#include <new>
#include <string>
#include <utility>

#include <heddle/array_use.h>
#include <heddle/ndarray.h>
#include <heddle/var_use.h>

#include "arrays/cpu_allocator.h"
#include "arrays/memory_sites.h"

namespace heddle {
namespace {

std::string describe(const Storage& storage, const NDArray* array) {
  if (!array) return "a storage of " + std::to_string(storage.bytes()) + " bytes";
  return std::string("an array of ") + name_of(array->dtype()) + " " + array->shape().to_string();
}

std::byte* allocate(const Storage& storage, const NDArray* array) try {
  return ndarray_detail::cpu_allocate(storage.bytes());
} catch (const std::bad_alloc&) {
  throw OutOfMemory(describe(storage, array), storage.bytes());
}

}  // namespace

void ndarray_detail::refuse_without_engine() {
  throw Error("an array whose engine is destroyed: its values can be read, and no op can have it any more");
}

Storage::Storage(Engine& engine, Device device, std::size_t bytes)
    : Storage(engine, device, bytes, nullptr) {}

Storage::Storage(Engine& engine, Device device, std::size_t bytes, std::shared_ptr<std::byte> memory)
    : var_(engine.new_var()),
      engine_(&engine_of(var_)),
      device_(device),
      bytes_(bytes),
      lent_(std::move(memory)),
      data_(lent_.get()),
      count_(lent_ ? nullptr : ndarray_detail::count_storage()) {
  if (device.kind != DeviceKind::cpu && !lent_) {
    throw InvalidArgument("Storage: Heddle takes no memory on " + device.to_string() +
                          " itself; it has cpu devices only, and what a storage is lent");
  }
  if (check::enabled()) record_.made(var_);
  if (ArrayUse* const use = ArrayUse::current()) [[unlikely]]
    use->made(*this);
}

Storage::~Storage() {
  std::byte* block = data_.load(std::memory_order_acquire);
  if (block && !lent_) ndarray_detail::cpu_deallocate(block, bytes_);
  if (count_) ndarray_detail::end_count(*count_, block ? bytes_ : 0);
}

void Storage::drop_memory() noexcept {
  if (lent_) return;
  std::byte* const block = data_.exchange(nullptr, std::memory_order_acq_rel);
  if (!block) return;
  ndarray_detail::cpu_deallocate(block, bytes_);
  if (count_) ndarray_detail::count_freed(*count_, bytes_);
}

std::byte* Storage::data(check::AccessKind touch, const NDArray* seen_as) {
  if (device_.kind == DeviceKind::cuda) [[unlikely]] {
    throw Error(describe(*this, seen_as) + " lies on " + device_.to_string() +
                ", which the CPU cannot reach; ops on a stream of that device can (Engine::push_on)");
  }
  return device_data(touch, seen_as);
}

std::byte* Storage::device_data(check::AccessKind touch, const NDArray* seen_as) {
  if (check::enabled()) record_.check_access(var_, touch, [=, this] { return describe(*this, seen_as); });
  std::byte* block = data_.load(std::memory_order_acquire);
  if (block) return block;
  // Several ops that only read may allocate a block at the same time. All of them then use the block that was
  // stored first, and the other blocks are freed.
  std::byte* fresh = allocate(*this, seen_as);
  if (data_.compare_exchange_strong(block, fresh, std::memory_order_acq_rel)) {
    if (count_) ndarray_detail::count_memory(*count_, bytes_);
    return fresh;
  }
  ndarray_detail::cpu_deallocate(fresh, bytes_);
  return block;
}

}  // namespace heddle
