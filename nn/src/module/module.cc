#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cxxabi.h>
#include <optional>
#include <ostream>
#include <typeinfo>
#include <unordered_set>

#include <heddle/autograd.h>
#include <heddle/graph.h>
#include <heddle/memory_hold.h>
#include <heddle/module.h>
#include <heddle/module_buffers.h>

#include "module/module_node.h"

namespace heddle {

using nn_detail::is_same;
using nn_detail::ModuleNode;

namespace {

// The arrays that `wanted` picks, by path; each array once.
template <class Wanted> std::vector<Parameter> arrays_of(ModuleNode& root, Wanted wanted) {
  std::vector<Parameter> found;
  const auto visit = [&](const std::string& path, const ModuleNode::Entry& entry) {
    if (entry.pending)
      throw InvalidArgument(
          "'" + path +
          "' has no shape before the first call of its layer; call the module once, or give "
          "the layer its sizes");
    const auto same = [&](const Parameter& other) { return is_same(other.value, entry.array); };
    if (wanted(entry) && std::none_of(found.begin(), found.end(), same)) found.push_back({path, entry.array});
  };
  nn_detail::visit_entries(root, visit);
  return found;
}

// The node and those inside it, each once.
std::vector<ModuleNode*> nodes_of(ModuleNode& root) {
  std::vector<ModuleNode*> all{&root};
  std::unordered_set<const ModuleNode*> known{&root};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const ModuleNode::Entry& entry : all[i]->entries)
      if (entry.module && known.insert(&ModuleNode::of(*entry.module)).second)
        all.push_back(&ModuleNode::of(*entry.module));
  return all;
}

bool is_or_holds(ModuleNode& node, const ModuleNode& wanted) {
  const std::vector<ModuleNode*> all = nodes_of(node);
  return std::find(all.begin(), all.end(), &wanted) != all.end();
}

void check_name(const ModuleNode& node, const std::string& module, const std::string& name, bool replaces) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw InvalidArgument(module + ": '" + name + "' names nothing in a module; want a name without a dot");
  if (!replaces && node.find(name)) throw InvalidArgument(module + ": there are two '" + name + "'");
}

// Puts the entry in place of the one with its name, or behind all others. The old entry is destroyed last, since a
// destructor may call functions of this module.
void put(ModuleNode& node, ModuleNode::Entry entry) {
  ++nn_detail::registrations;
  if (ModuleNode::Entry* const known = node.find(entry.name)) {
    std::swap(*known, entry);
  } else {
    node.entries.push_back(std::move(entry));
  }
}

void check_registered(const std::string& module, const std::string& name, const NDArray& value) {
  if (!value.defined()) ndarray_detail::refuse_undefined((module + ": '" + name + "'").c_str());
}

// `value` as a leaf.
NDArray leaf_of(const std::string& module, const std::string& name, NDArray value) {
  check_registered(module, name, value);
  if (!is_floating(value.dtype()))
    throw InvalidArgument(module + ": parameter '" + name + "' is " + name_of(value.dtype()) +
                          "; want a floating array, or a buffer");
  if (requires_grad(value) && !is_leaf(value))
    throw InvalidArgument(module + ": parameter '" + name + "' was computed from others; detach() it");
  set_requires_grad(value);
  return value;
}

void check_buffer(const std::string& module, const std::string& name, const NDArray& value) {
  check_registered(module, name, value);
  if (requires_grad(value))
    throw InvalidArgument(module + ": buffer '" + name + "' requires a gradient; detach() it");
}

}  // namespace

bool nn_detail::is_same(const NDArray& a, const NDArray& b) {
  return a.defined() && b.defined() && a.storage() == b.storage() && a.offset() == b.offset() &&
         a.shape() == b.shape() && a.strides() == b.strides() && a.grad_meta() == b.grad_meta();
}

std::string nn_detail::indented(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '\n' ? "\n  " : std::string(1, c);
  return result;
}

Module::Module() : node_(std::make_shared<ModuleNode>()) {}

NDArray Module::operator()(const NDArray& x, Where where) {
  return call(
      {x}, [&] { return forward(x); }, where);
}

std::vector<NDArray> Module::run(std::span<const NDArray> inputs, Where where) {
  ModuleCall call(*this, inputs, where);
  std::vector<NDArray> results = forward_all(inputs);
  call.done(results);
  return results;
}

std::vector<NDArray> Module::forward_all(std::span<const NDArray> inputs) {
  if (inputs.size() == 1) return {forward(inputs[0])};
  throw InvalidArgument(to_string() + ": " + std::to_string(inputs.size()) + " arguments; want one array");
}

NDArray Module::forward(const NDArray&) {
  throw InvalidArgument(class_name() + ": forward(x) is missing; the module does not take one array alone");
}

std::vector<Parameter> Module::parameters() const {
  return arrays_of(*node_, [](const ModuleNode::Entry& entry) {
    return entry.kind == ModuleNode::Kind::parameter && is_leaf(entry.array);
  });
}

std::vector<Parameter> buffers_of(const Module& module) {
  return arrays_of(ModuleNode::of(module),
                   [](const ModuleNode::Entry& entry) { return entry.kind == ModuleNode::Kind::buffer; });
}

std::vector<Parameter> all_buffers_of(const Module& module) {
  return arrays_of(ModuleNode::of(module), [](const ModuleNode::Entry& entry) {
    return entry.kind == ModuleNode::Kind::buffer || entry.kind == ModuleNode::Kind::unsaved_buffer;
  });
}

std::optional<Device> device_of(const Module& module) {
  std::optional<Device> of_parameter, of_buffer;
  const auto visit = [&](const std::string&, const ModuleNode::Entry& entry) {
    if (entry.pending) return;
    std::optional<Device>& first = entry.kind == ModuleNode::Kind::parameter ? of_parameter : of_buffer;
    if (!first) first = entry.array.device();
  };
  nn_detail::visit_entries(ModuleNode::of(module), visit);
  return of_parameter ? of_parameter : of_buffer;
}

std::vector<Parameter> Module::state() const {
  return arrays_of(
      *node_, [](const ModuleNode::Entry& entry) { return entry.kind != ModuleNode::Kind::unsaved_buffer; });
}

std::vector<Module::Child> Module::children() const {
  std::vector<Child> all;
  for (const ModuleNode::Entry& entry : node_->entries)
    if (entry.module) all.push_back({entry.name, entry.module});
  return all;
}

void Module::train(bool on) {
  for (ModuleNode* const node : nodes_of(*node_)) node->set_training(on);
}

std::uint64_t module_modes() { return nn_detail::modes.load(std::memory_order_relaxed); }

bool Module::training() const { return node_->training.load(std::memory_order_relaxed); }

void Module::autocast(std::optional<DType> dtype) {
  if (dtype && *dtype != DType::f32 && !is_half(*dtype))
    throw InvalidArgument(class_name() + ": autocast: dtype is " + name_of(*dtype) +
                          "; want bf16, f16, f32 or none");
  node_->set_autocast(dtype);
}
std::optional<DType> Module::autocast() const { return node_->autocast_dtype(); }

HookHandle Module::before_call(ModuleHook hook) { return add_hook(std::move(hook), true); }
HookHandle Module::after_call(ModuleHook hook) { return add_hook(std::move(hook), false); }

HookHandle Module::add_hook(ModuleHook hook, bool before) {
  if (!hook)
    throw InvalidArgument(class_name() + (before ? ": before_call" : ": after_call") + ": the hook is empty");
  const std::lock_guard guard(node_->hooks_lock);
  ModuleNode::Hooks& list = before ? node_->hooks_before : node_->hooks_after;
  list.push_back(std::make_shared<const ModuleHook>(std::move(hook)));
  node_->has_hooks.store(true, std::memory_order_relaxed);
  HookHandle handle;
  handle.node_ = node_;
  handle.hook_ = list.back().get();
  return handle;
}

void HookHandle::remove() {
  const std::shared_ptr<ModuleNode> node = node_.lock();
  node_.reset();
  if (!node) return;
  std::shared_ptr<const ModuleHook> gone;  // destroyed without the lock: it may hold what calls this module
  const std::lock_guard guard(node->hooks_lock);
  for (ModuleNode::Hooks* const list : {&node->hooks_before, &node->hooks_after}) {
    const auto found =
        std::find_if(list->begin(), list->end(), [&](const auto& one) { return one.get() == hook_; });
    if (found == list->end()) continue;
    gone = std::move(*found);
    list->erase(found);
  }
}

void Module::freeze(bool on) {
  nn_detail::visit_entries(*node_, [&](const std::string&, ModuleNode::Entry& entry) {
    if (entry.pending)
      entry.frozen = on;
    else if (entry.kind == ModuleNode::Kind::parameter)
      set_requires_grad(entry.array, !on);
  });
}

void nn_detail::move_arrays(const std::vector<NDArray>& arrays, Device device) {
  const NoGrad no_grad;
  std::vector<std::shared_ptr<Storage>> all;
  for (const NDArray& array : arrays)
    if (array.device() != device && std::find(all.begin(), all.end(), array.storage()) == all.end())
      all.push_back(array.storage());
  std::vector<NDArray> moved;
  for (const std::shared_ptr<Storage>& storage : all) {
    const NDArray bytes(storage, {static_cast<std::int64_t>(storage->bytes())}, DType::u8);
    moved.push_back(bytes.copy_to(device));
    storage->engine().push([] {}, {.read = {storage->var()}, .mutate = {storage->var()}, .name = "move"},
                           CallSite::current());
  }
  for (const NDArray& copy : moved) copy.wait();
  for (const std::shared_ptr<Storage>& storage : all) storage->engine().wait(storage->var());
  for (std::size_t i = 0; i < all.size(); ++i) exchange_memory(all[i], moved[i].storage());
  ++nn_detail::registrations;
  nn_detail::modes.fetch_add(all.size() * 0xA24BAED4963EE407u,
                             std::memory_order_relaxed);  // steps are captured anew
}

void Module::to(Device device, Where where) {
  const CallSite site(where);
  std::vector<NDArray> all;
  nn_detail::visit_entries(*node_, [&](const std::string&, const ModuleNode::Entry& entry) {
    if (entry.pending) return;
    all.push_back(entry.array);
    if (!is_floating(entry.array.dtype())) return;
    if (const NDArray grad = entry.array.grad(); grad.defined()) all.push_back(grad);
    const RowSparse rows = row_sparse_grad(entry.array);
    if (rows.defined()) all.insert(all.end(), {rows.rows(), rows.values(), rows.count()});
  });
  nn_detail::move_arrays(all, device);
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.to_string(); }

std::string Module::class_name() const {
  const char* const mangled = typeid(*this).name();
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
  std::string name = readable ? readable.get() : mangled;
  name = name.substr(0, name.find('<'));
  const std::size_t last = name.rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

std::string Module::to_string() const {
  std::string text = class_name();
  const std::vector<Child> all = children();
  if (all.empty()) return text;
  text += "{";
  for (const Child& one : all)
    text += "\n  " + one.name + ": " + nn_detail::indented(one.module->to_string());
  return text + "\n}";
}

NDArray Module::parameter(const std::string& name, NDArray value) {
  check_name(*node_, class_name(), name, false);
  const NDArray leaf = leaf_of(class_name(), name, std::move(value));
  put(*node_, {.name = name, .array = leaf});
  return leaf;
}

NDArray Module::set(const std::string& name, const NDArray& array) {
  ModuleNode::Entry* const known = node_->find(name);
  const bool is_array = known && !known->module;
  if (is_array && is_same(known->array, array)) return known->array;
  if (is_array && known->kind != ModuleNode::Kind::parameter) {
    check_buffer(class_name(), name, array);
    if (is_capturing())
      throw Error(
          class_name() + ": buffer '" + name +
          "' gets another array in a step that is captured, which no launch would repeat; change it in "
          "place, in Python by self." +
          name + "[...] = ");
    known->pending = false;
    return known->array = array;
  }
  if (!is_array && !(array.defined() && is_leaf(array))) {
    remove(name);
    return array;
  }
  check_name(*node_, class_name(), name, true);
  const bool frozen = is_array && (known->pending ? known->frozen : !is_leaf(known->array));
  NDArray leaf = leaf_of(class_name(), name, array);
  if (frozen) set_requires_grad(leaf, false);
  put(*node_, {.name = name, .array = leaf});
  return leaf;
}

void Module::remove(const std::string& name) {
  std::vector<ModuleNode::Entry>& entries = node_->entries;
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  if (found == entries.end()) return;
  ++nn_detail::registrations;
  const ModuleNode::Entry gone = std::move(*found);  // destroyed last: a destructor may call this module
  entries.erase(found);
}

NDArray Module::buffer(const std::string& name, NDArray value, bool saved) {
  check_name(*node_, class_name(), name, false);
  check_buffer(class_name(), name, value);
  put(*node_, {.name = name,
               .kind = saved ? ModuleNode::Kind::buffer : ModuleNode::Kind::unsaved_buffer,
               .array = value});
  return value;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module, bool replaces) {
  check_name(*node_, class_name(), name, replaces);
  if (!module) throw InvalidArgument(class_name() + ": child '" + name + "' is null");
  // A module that holds itself calls itself without end, and owns itself, so that it is never destroyed.
  if (is_or_holds(*module->node_, *node_))
    throw InvalidArgument(class_name() + ": child '" + name +
                          "' is, or holds, this module; want another one");
  put(*node_, {.name = name, .module = std::move(module)});
}

}  // namespace heddle
