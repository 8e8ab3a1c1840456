// What the copies of a module share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle::nn_detail {

// Which modules are in inference: changes with each change of a module's mode, and back when that is changed back.
inline std::atomic<std::uint64_t> modes{0};

struct ModuleNode {
  ModuleNode() = default;
  ~ModuleNode() { set_training(true); }
  ModuleNode(const ModuleNode&) = delete;
  ModuleNode& operator=(const ModuleNode&) = delete;

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

  Entry* find(const std::string& name) {
    for (Entry& entry : entries)
      if (entry.name == name) return &entry;
    return nullptr;
  }
  const Entry* find(const std::string& name) const { return const_cast<ModuleNode*>(this)->find(name); }

  struct Hooks {
    std::vector<std::shared_ptr<const ModuleHook>> before, after;
  };

  void set_training(bool on) {
    if (training.exchange(on, std::memory_order_relaxed) == on) return;
    const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(this) * 0x9E3779B97F4A7C15u;
    modes.fetch_xor(bits ^ bits >> 32, std::memory_order_relaxed);
  }

  std::vector<Entry> entries;    // entries in the order of registration
  std::unique_ptr<Hooks> hooks;  // null as long as there was none
  std::atomic<bool> training{true};
  // The value of `registrations` when a call was last looked at: for each combination of inference or training,
  // without or with a tape.
  std::atomic<std::uint64_t> checked[4] = {0, 0, 0, 0};
};

// One more than how often anything was registered or removed, in any module. After a change calls are looked at
// anew.
inline std::atomic<std::uint64_t> registrations{1};

// Calls visit(path, array) for each parameter of a module and of those inside it, frozen or not.
template <class Visit>
void visit_parameters(const Module& module, const Visit& visit, const std::string& path = "") {
  for (ModuleNode::Entry& entry : ModuleNode::of(module).entries) {
    if (entry.module)
      visit_parameters(*entry.module, visit, path + entry.name + ".");
    else if (entry.kind == ModuleNode::Kind::parameter && !entry.pending)
      visit(path + entry.name, entry.array);
  }
}

// The text with two spaces more after each line break.
std::string indented(const std::string& text);

}  // namespace heddle::nn_detail
