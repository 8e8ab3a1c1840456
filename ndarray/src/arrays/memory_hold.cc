#include <mutex>
#include <unordered_map>
#include <utility>

#include <heddle/memory_hold.h>

namespace heddle {
namespace {

struct MemoryHold;

// The holds on storages that have still the memory that is held. Never destroyed: arrays may end later than static variables.
struct Holds {
  std::mutex mutex;  // guards `all` and MemoryHold::owner; nothing is locked while it is held
  std::unordered_map<const Storage*, std::weak_ptr<MemoryHold>> all;
};
Holds& holds() {
  static Holds* const made = new Holds;
  return *made;
}

// Keeps the storage that has the memory.
struct MemoryHold {
  explicit MemoryHold(std::shared_ptr<Storage> storage) : owner(std::move(storage)) {}
  ~MemoryHold() {
    const std::lock_guard guard(holds().mutex);
    const auto entry = holds().all.find(owner.get());
    if (entry != holds().all.end() && entry->second.expired()) holds().all.erase(entry);
  }
  MemoryHold(const MemoryHold&) = delete;
  MemoryHold& operator=(const MemoryHold&) = delete;
  std::shared_ptr<Storage> owner;
};

std::shared_ptr<MemoryHold> hold_on(const std::shared_ptr<Storage>& storage) {
  const auto entry = holds().all.find(storage.get());
  return entry == holds().all.end() ? nullptr : entry->second.lock();
}

void set_hold(const std::shared_ptr<Storage>& storage, const std::shared_ptr<MemoryHold>& hold) {
  if (!hold) return void(holds().all.erase(storage.get()));
  hold->owner = storage;
  holds().all[storage.get()] = hold;
}

}  // namespace

std::shared_ptr<const void> hold_memory(const std::shared_ptr<Storage>& storage) {
  std::shared_ptr<MemoryHold> hold, fresh = std::make_shared<MemoryHold>(storage);
  const std::lock_guard guard(holds().mutex);
  hold = hold_on(storage);
  if (hold) return hold;
  set_hold(storage, fresh);
  return fresh;
}

bool holds_memory_of(const std::shared_ptr<const void>& hold, const Storage& storage) {
  const std::lock_guard guard(holds().mutex);
  return static_cast<const MemoryHold*>(hold.get())->owner.get() == &storage;
}

// Holds follow their memory. They are released after the lock.
void exchange_memory(const std::shared_ptr<Storage>& a, const std::shared_ptr<Storage>& b) {
  a->exchange_memory(*b);
  std::shared_ptr<MemoryHold> of_a, of_b;
  const std::lock_guard guard(holds().mutex);
  of_a = hold_on(a), of_b = hold_on(b);
  set_hold(a, of_b);
  set_hold(b, of_a);
}

}  // namespace heddle
