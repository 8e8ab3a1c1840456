// What the copies of a module share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <heddle/module.h>

namespace heddle::nn_detail {

// Which modules are in inference: changes with each change of a module's mode, and back when that is changed back.
inline std::atomic<std::uint64_t> modes{0};

struct ModuleNode {
  ModuleNode() = default;
  ~ModuleNode() {
    set_training(true);
    set_autocast({});
  }
  ModuleNode(const ModuleNode&) = delete;
  ModuleNode& operator=(const ModuleNode&) = delete;

  std::uint64_t autocast_bits(int code) const {
    const std::uint64_t bits =
        (reinterpret_cast<std::uintptr_t>(this) + static_cast<std::uint64_t>(code)) * 0xD6E8FEB86659FD93u;
    return code == 0 ? 0 : bits ^ bits >> 32;
  }

  enum class Kind : std::uint8_t { parameter, buffer, unsaved_buffer };
  struct Entry {
    std::string name;
    Kind kind = Kind::parameter;       // kind of the array
    NDArray array{};                   // undefined for a child
    std::shared_ptr<Module> module{};  // null for an array
    bool pending = false;              // the array will be made by the module's first call, see kInferred
    bool frozen = false;               // whether a pending parameter will be frozen
  };

  static ModuleNode& of(const Module& module) { return *module.node_; }
  static std::shared_ptr<ModuleNode> shared(const Module& module) { return module.node_; }

  Entry* find(const std::string& name) {
    for (Entry& entry : entries)
      if (entry.name == name) return &entry;
    return nullptr;
  }
  const Entry* find(const std::string& name) const { return const_cast<ModuleNode*>(this)->find(name); }

  using Hooks = std::vector<std::shared_ptr<const ModuleHook>>;
  // The hooks at this moment: threads that call the module may add and remove some.
  Hooks hooks(bool before) const {
    const std::lock_guard guard(hooks_lock);
    return before ? hooks_before : hooks_after;
  }

  void set_training(bool on) {
    if (training.exchange(on, std::memory_order_relaxed) == on) return;
    const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(this) * 0x9E3779B97F4A7C15u;
    modes.fetch_xor(bits ^ bits >> 32, std::memory_order_relaxed);
  }

  // Changes what `modes` is too: captured steps are captured anew.
  void set_autocast(std::optional<DType> dtype) {
    const int code = dtype ? static_cast<int>(*dtype) + 1 : 0,
              before = autocast.exchange(code, std::memory_order_relaxed);
    modes.fetch_xor(autocast_bits(code) ^ autocast_bits(before), std::memory_order_relaxed);
  }
  std::optional<DType> autocast_dtype() const {
    const int code = autocast.load(std::memory_order_relaxed);
    return code == 0 ? std::nullopt : std::optional(static_cast<DType>(code - 1));
  }

  std::vector<Entry> entries;  // entries in the order of registration
  mutable std::mutex hooks_lock;
  Hooks hooks_before, hooks_after;     // guarded by hooks_lock
  std::atomic<bool> has_hooks{false};  // whether there are any; true once there were
  std::atomic<bool> training{true};
  std::atomic<int> autocast{0};  // one more than the number of the dtype; 0: none
  // The value of `registrations` when a call was last looked at: for each combination of inference or training,
  // without or with a tape.
  std::atomic<std::uint64_t> checked[4] = {0, 0, 0, 0};
};

// One more than how often anything was registered or removed, in any module. After a change calls are looked at
// anew.
inline std::atomic<std::uint64_t> registrations{1};

// Calls visit(path, entry) for each array of a module and of those inside it; for what a module has once, under the first path that
// leads to the module.
template <class Visit> class EntryVisitor {
 public:
  explicit EntryVisitor(const Visit& visit) : visit_(visit) {}
  void operator()(ModuleNode& node, const std::string& path) {
    if (!visited_.insert(&node).second) return;
    for (ModuleNode::Entry& entry : node.entries) {
      if (entry.module)
        (*this)(ModuleNode::of(*entry.module), path + entry.name + ".");
      else
        visit_(path + entry.name, entry);
    }
  }

 private:
  const Visit& visit_;
  std::unordered_set<const ModuleNode*> visited_;
};
template <class Visit> void visit_entries(ModuleNode& node, const Visit& visit) {
  EntryVisitor<Visit> visitor(visit);
  visitor(node, "");
}

// Gives the arrays, and all that share their memory, memory on `device`, and copies their values. Waits for their ops; no other
// thread may use them meanwhile. After an error all is where it was.
void move_arrays(const std::vector<NDArray>& arrays, Device device);

// Calls visit(path, array) for each parameter, frozen or not, as visit_entries() does.
template <class Visit> void visit_parameters(const Module& module, const Visit& visit) {
  visit_entries(ModuleNode::of(module), [&](const std::string& path, ModuleNode::Entry& entry) {
    if (entry.kind == ModuleNode::Kind::parameter && !entry.pending) visit(path, entry.array);
  });
}

// Two leaves in the same memory count as two arrays, because each has a gradient of its own.
bool is_same(const NDArray& a, const NDArray& b);

// The text with two spaces more after each line break.
std::string indented(const std::string& text);

}  // namespace heddle::nn_detail
