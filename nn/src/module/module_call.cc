// Finds out what a call of a module uses: once for each module, and once more after anything was registered.
#include <algorithm>
#include <unordered_set>

#include <heddle/array_use.h>
#include <heddle/autograd.h>
#include <heddle/module.h>
#include <heddle/shape_ops.h>

#include "module/module_node.h"

namespace heddle {

using nn_detail::ModuleNode;

namespace {

// How many calls of modules this thread is in. Only in the outermost one are all modules inside.
thread_local int calls = 0;
// The module of the innermost of them. An object of another language calls the layer that it stands for, which is the same
// module: hooks are called once.
thread_local const ModuleNode* innermost = nullptr;

using Storages = std::unordered_set<const Storage*>;

void add_registered(ModuleNode& node, Storages& storages) {
  nn_detail::visit_entries(node, [&](const std::string&, const ModuleNode::Entry& entry) {
    if (!entry.pending) storages.insert(entry.array.storage().get());
  });
}

const NDArray* first_outside(const std::vector<NDArray>& used, const Storages& known) {
  const auto found = std::find_if(used.begin(), used.end(),
                                  [&](const NDArray& array) { return !known.count(array.storage().get()); });
  return found == used.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const Module& module, const std::string& does, const NDArray& array,
                         const std::string& advice) {
  throw InvalidArgument(module.to_string() + ": forward() " + does + " an array of " +
                        name_of(array.dtype()) + " " + array.shape().to_string() +
                        ", which is neither an argument nor registered; " + advice +
                        ", or the module that has it by child(name, module)");
}

// What hooks use and change is not the module's; what they put into `outputs`
// counts as made by it.
void call_hooks(const Module& module, const ModuleNode::Hooks& hooks, std::span<const NDArray> inputs,
                std::span<NDArray> outputs) {
  {
    const ArrayUse::Pause pause;
    for (const auto& hook : hooks) (*hook)(module, inputs, outputs);
  }
  ArrayUse* const use = ArrayUse::current();
  if (!use) return;
  for (const NDArray& output : outputs)
    if (output.defined()) use->made(*output.storage());
}

}  // namespace

struct ModuleCall::Use {
  std::vector<NDArray> arguments;
  std::vector<const Module*> modules{};
  std::atomic<std::uint64_t>* checked;
  std::uint64_t registrations;
  ArrayUse arrays{};
};

ModuleCall::ModuleCall(const Module& module, std::span<const NDArray> arguments, Where where)
    : site_(where),
      module_(module),
      outer_(innermost),
      widens_(ModuleNode::of(module).autocast_dtype().value_or(DType::f32) != DType::f32 &&
              !Autocast::active()) {
  const ModuleNode& node = ModuleNode::of(module);
  if (const std::optional<DType> dtype = node.autocast_dtype()) autocast_.emplace(*dtype);
  if (node.has_hooks.load(std::memory_order_relaxed) && outer_ != &node) {
    inputs_ = std::make_unique<std::vector<NDArray>>(arguments.begin(), arguments.end());
    call_hooks(module, node.hooks(true), *inputs_, {});
  }
  if (calls == 0) look(arguments);
  innermost = &node;
  ++calls;
}

// Notes what the call uses, unless that is known.
void ModuleCall::look(std::span<const NDArray> arguments) {
  const std::uint64_t now = nn_detail::registrations.load(std::memory_order_relaxed);
  std::atomic<std::uint64_t>& checked =
      ModuleNode::of(module_).checked[(module_.training() ? 1 : 0) + (NoGrad::active() ? 0 : 2)];
  if (checked.load(std::memory_order_relaxed) == now) return;
  use_.reset(
      new Use{.arguments = {arguments.begin(), arguments.end()}, .checked = &checked, .registrations = now});
}

void ModuleCall::add(const NDArray& argument) {
  if (use_) use_->arguments.push_back(argument);
}

void ModuleCall::add(const Module& argument) {
  if (use_) use_->modules.push_back(&argument);
}

ModuleCall::~ModuleCall() {
  innermost = outer_;
  --calls;
}

void ModuleCall::done(std::span<NDArray> outputs) {
  check_use();
  if (widens_) {
    const ArrayUse::Pause pause;
    for (NDArray& output : outputs)
      if (output.defined() && is_half(output.dtype())) output = cast(output, DType::f32);
  }
  if (!inputs_) return;
  use_.reset();
  call_hooks(module_, ModuleNode::of(module_).hooks(false), *inputs_, outputs);
}

void ModuleCall::check_use() {
  if (!use_) return;
  Storages known;
  add_registered(ModuleNode::of(module_), known);
  for (const Module* argument : use_->modules) add_registered(ModuleNode::of(*argument), known);
  for (const NDArray& argument : use_->arguments)
    if (argument.defined()) known.insert(argument.storage().get());
  if (const NDArray* array = first_outside(use_->arrays.differentiated(), known))
    refuse(module_, "computes with", *array,
           "it requires a gradient: register it in the constructor by parameter(name, array)");
  if (const NDArray* array = first_outside(use_->arrays.changed(), known))
    refuse(module_, "changes", *array, "register it in the constructor by buffer(name, array)");
  use_->checked->store(use_->registrations, std::memory_order_relaxed);
}

}  // namespace heddle
