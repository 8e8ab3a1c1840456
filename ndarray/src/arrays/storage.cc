#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include <heddle/array_use.h>
#include <heddle/gpu_memory.h>
#include <heddle/issuing_device.h>
#include <heddle/ndarray.h>
#include <heddle/var_use.h>

#include "arrays/cpu_allocator.h"
#include "arrays/issuing.h"
#include "arrays/lent.h"
#include "arrays/memory_sites.h"
#include "arrays/out_of_memory.h"

namespace heddle {
namespace {

thread_local constinit const ndarray_detail::IssuingOn* innermost_issuing = nullptr;

std::string describe(const Storage& storage, const NDArray* array) {
  if (!array) return "a storage of " + std::to_string(storage.bytes()) + " bytes";
  return std::string("an array of ") + name_of(array->dtype()) + " " + array->shape().to_string();
}

// Memory that is first used on the stream of the op that is being issued is taken on that stream. Other memory is there
// before the host goes on: that of ops which the program pushes on streams, or which read what was never written.
std::byte* allocate_on_gpu(const Storage& storage, check::AccessKind touch) {
  if (storage.bytes() == 0) return nullptr;
  const auto* const issuing = ndarray_detail::IssuingOn::current();
  if (issuing && issuing->owner.device() == storage.device() && touch != check::AccessKind::read)
    return gpu_allocate(issuing->stream, issuing->owner, storage.bytes());
  return gpu_allocate_for_all(storage.engine().stream(storage.device()), storage.bytes());
}

std::byte* allocate(const Storage& storage, check::AccessKind touch, const NDArray* array) try {
  if (storage.device().kind == DeviceKind::cpu) [[likely]]
    return ndarray_detail::cpu_allocate(storage.bytes());
  std::byte* const made = storage.device().kind == DeviceKind::cuda ? allocate_on_gpu(storage, touch)
                                                                    : gpu_allocate_pinned(storage.bytes());
  if (!made && storage.bytes() > 0) throw std::bad_alloc();
  return made;
} catch (const std::bad_alloc&) {
  const ndarray_detail::NoMemoryOn device(storage.device());
  throw OutOfMemory(describe(storage, array), storage.bytes());
}

void deallocate(Device device, std::byte* block, std::size_t bytes) noexcept {
  if (device.kind == DeviceKind::cpu) [[likely]]
    return ndarray_detail::cpu_deallocate(block, bytes);
  device.kind == DeviceKind::cuda ? gpu_free(block) : gpu_free_pinned(block);
}

// The vars of storages whose memory on a GPU is lent. Never destroyed: arrays may end later than static variables.
struct Lent {
  std::mutex mutex;  // guards vars
  std::unordered_set<const void*> vars;
  std::atomic<std::size_t> count{0};
};
Lent& lent_vars() {
  static Lent* const made = new Lent;
  return *made;
}

void count_lent(const Var& var, bool lent) {
  Lent& all = lent_vars();
  const std::lock_guard guard(all.mutex);
  lent ? void(all.vars.insert(var.state())) : void(all.vars.erase(var.state()));
  all.count = all.vars.size();
}

}  // namespace

bool ndarray_detail::uses_lent_memory(const Access& access) {
  Lent& all = lent_vars();
  if (all.count == 0) [[likely]]
    return false;
  const std::lock_guard guard(all.mutex);
  const auto is_lent = [&all](const void* var) { return all.vars.contains(var); };
  return std::any_of(access.read.begin(), access.read.end(), is_lent) ||
         std::any_of(access.mutate.begin(), access.mutate.end(), is_lent);
}

ndarray_detail::IssuingOn::IssuingOn(Stream& issued_on, Stream& its_owner)
    : stream(issued_on), owner(its_owner), outer_(innermost_issuing) {
  innermost_issuing = this;
}
ndarray_detail::IssuingOn::~IssuingOn() { innermost_issuing = outer_; }
const ndarray_detail::IssuingOn* ndarray_detail::IssuingOn::current() { return innermost_issuing; }

std::optional<Device> issuing_device() {
  const auto* const issuing = ndarray_detail::IssuingOn::current();
  return issuing ? std::optional(issuing->stream.device()) : std::nullopt;
}

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
  if (device.kind != DeviceKind::cpu && !lent_) [[unlikely]] {
    if (const std::string why = gpu_refusal(device); !why.empty())
      throw InvalidArgument("Storage: Heddle takes no memory on " + device.to_string() + ": " + why);
  }
  if (lent_ && device.kind == DeviceKind::cuda) [[unlikely]]
    count_lent(var_, true);
  if (check::enabled()) record_.made(var_);
  if (ArrayUse* const use = ArrayUse::current()) [[unlikely]]
    use->made(*this);
}

Storage::~Storage() {
  std::byte* block = data_.load(std::memory_order_acquire);
  if (block && !lent_) deallocate(device_, block, bytes_);
  if (lent_ && device_.kind == DeviceKind::cuda) [[unlikely]]
    count_lent(var_, false);
  if (count_) ndarray_detail::end_count(*count_, block ? bytes_ : 0);
}

void Storage::drop_memory() noexcept {
  if (lent_) return;
  std::byte* const block = data_.exchange(nullptr, std::memory_order_acq_rel);
  if (!block) return;
  deallocate(device_, block, bytes_);
  if (count_) ndarray_detail::count_freed(*count_, bytes_);
}

void Storage::exchange_memory(Storage& other) noexcept {
  std::swap(device_, other.device_);
  lent_.swap(other.lent_);
  std::byte* const own = data_.load(std::memory_order_acquire);
  data_.store(other.data_.exchange(own, std::memory_order_acq_rel), std::memory_order_release);
  if (lent_ || other.lent_) [[unlikely]] {
    for (const Storage* one : {static_cast<const Storage*>(this), static_cast<const Storage*>(&other)})
      count_lent(one->var_, one->lent_ && one->device_.kind == DeviceKind::cuda);
  }
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
  std::byte* fresh = allocate(*this, touch, seen_as);
  if (data_.compare_exchange_strong(block, fresh, std::memory_order_acq_rel)) {
    if (count_) ndarray_detail::count_memory(*count_, bytes_);
    return fresh;
  }
  deallocate(device_, fresh, bytes_);
  return block;
}

}  // namespace heddle
