#include "module_gc.h"

#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace heddle::python {
namespace {

using Hooks = std::vector<std::weak_ptr<HookFunction>>;

// The functions of the hooks that were added to each Python object. Guarded by the GIL; immortal, since objects may outlive static ones.
std::unordered_map<PyObject*, Hooks>& hooks_of_modules() {
  static auto& all = *new std::unordered_map<PyObject*, Hooks>;
  return all;
}

const Hooks* hooks_of(PyObject* module) {
  const auto found = hooks_of_modules().find(module);
  return found == hooks_of_modules().end() ? nullptr : &found->second;
}

// Calls visit(object) for each reference on a Python object that the module's list of children alone holds.
template <class Visit> int for_each_child(PyObject* self, const Visit& visit) {
  const Module& module = *nb::inst_ptr<Module>(self);
  if (typeid(module) == typeid(Module)) return 0;  // another handle on a module that has an object of its own
  for (const Module::Child& one : module.children()) {
    // Made of a Python object, and held by the list and by `one`: not by a call that is under way.
    const auto* const held = std::get_deleter<ModuleOwner>(one.module);
    if (!held || one.module.use_count() != 2) continue;
    if (const int stop = visit(held->object.get())) return stop;
  }
  return 0;
}

int traverse_module(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  if (const Hooks* const hooks = hooks_of(self))
    for (const std::weak_ptr<HookFunction>& one : *hooks)
      if (const auto held = one.lock()) Py_VISIT(held->function.get());
  return for_each_child(self, [&](PyObject* child) {
    Py_VISIT(child);
    return 0;
  });
}

int clear_module(PyObject* self) {
  const Hooks* const hooks = hooks_of(self);
  if (!hooks) return 0;
  std::vector<Reference> dropped;  // what they run as they go may add hooks
  for (const std::weak_ptr<HookFunction>& one : *hooks)
    if (const auto held = one.lock()) dropped.push_back(std::exchange(held->function, Reference()));
  return 0;
}

}  // namespace

PyType_Slot module_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_module)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear_module)},
                              {0, nullptr}};

std::shared_ptr<HookFunction> hook_function(nb::handle module, nb::object function) {
  const auto made = std::make_shared<HookFunction>(HookFunction{Reference(std::move(function))});
  auto [entry, is_first] = hooks_of_modules().try_emplace(module.ptr());
  std::erase_if(entry->second, [](const auto& one) { return one.expired(); });
  entry->second.push_back(made);
  if (is_first)  // another object may have the address later
    NB_CALL(keep_alive_ptr)
  (NB_CTX, module.ptr(), module.ptr(),
   [](void* self) noexcept { hooks_of_modules().erase(static_cast<PyObject*>(self)); });
  return made;
}

}  // namespace heddle::python
