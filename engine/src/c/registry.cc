#include "c/registry.h"

#include <atomic>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/fork.h"
#include "c/handles.h"

namespace heddle::c {
namespace {

constexpr std::size_t kDelayedFrees = 1 << 16;  // number of freed handles whose memory is not reused yet

struct LateFree {
  void* memory;
  void (*release)(void*);
};

struct LiveHandles {
  detail::ForkMutex mutex;  // guards all below; may be held while a handle is copied, which locks nothing
  std::unordered_map<const void*, Kind> all;
  std::deque<LateFree> late;
};

constinit std::atomic<const AbiExtension*> added{nullptr};

// The registry is never destroyed, since static objects may hold handles.
LiveHandles& live_handles() {
  static LiveHandles& immortal = *new LiveHandles;
  return immortal;
}

std::unordered_map<const void*, Kind>::iterator find(LiveHandles& live, const void* handle, Kind kind,
                                                     const char* call) {
  if (!handle) throw_null(call, name_of(kind));
  const auto found = live.all.find(handle);
  if (found == live.all.end()) {
    throw BadHandle(std::string(call) + ": this " + name_of(kind) + " was destroyed, or never made");
  }
  if (found->second != kind) throw_wrong_kind(call, kind, found->second);
  return found;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {
      "heddle_engine",   "heddle_var",     "heddle_group", "heddle_prepared", "heddle_completion",
      "heddle_run",      "heddle_graph",   "heddle_slot",  "heddle_stream",   "heddle_error",
      "heddle_progress", "heddle_waiting", "text"};
  const auto index = static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(Kind::engine);
  if (index < std::size(kNames)) return kNames[index];
  const char* const name = abi_extension() ? abi_extension()->name_of_kind(kind) : nullptr;
  return name ? name : "no handle of Heddle";
}

void add(const AbiExtension& abi_extension) { added.store(&abi_extension, std::memory_order_release); }
const AbiExtension* abi_extension() { return added.load(std::memory_order_acquire); }

void registry::add(const void* handle, Kind kind) {
  LiveHandles& live = live_handles();
  const std::lock_guard guard(live.mutex);
  live.all[handle] = kind;
}

void registry::with(const void* handle, Kind kind, const char* call, const std::function<void()>& use) {
  LiveHandles& live = live_handles();
  const std::lock_guard guard(live.mutex);
  find(live, handle, kind, call);
  use();
}

void registry::remove(const void* handle, Kind kind, const char* call, const std::function<void()>& use) {
  LiveHandles& live = live_handles();
  const std::lock_guard guard(live.mutex);
  const auto found = find(live, handle, kind, call);
  use();
  live.all.erase(found);
}

void registry::free_late(void* memory, void (*release)(void*)) {
  LiveHandles& live = live_handles();
  LateFree oldest{};
  {
    const std::lock_guard guard(live.mutex);
    live.late.push_back({memory, release});
    if (live.late.size() > kDelayedFrees) {
      oldest = live.late.front();
      live.late.pop_front();
    }
  }
  if (oldest.memory) oldest.release(oldest.memory);
}

}  // namespace heddle::c
