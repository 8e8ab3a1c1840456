// The garbage collector's way through modules: functions of hooks, and modules inside, are references of Python's that C++ holds.
#pragma once

#include <memory>

#include <heddle/module.h>

#include "interpreter.h"

namespace heddle::python {

// A function that a hook of a module calls. It is gone once the collector has found the module to be garbage.
struct HookFunction {
  Reference function;
};
// Makes one that the collector finds as a reference of `module`. Needs the GIL.
std::shared_ptr<HookFunction> hook_function(nb::handle module, nb::object function);

// The deleter of a module that a Python object is: the last owner may be on any thread, with or without the GIL.
struct ModuleOwner {
  Reference object;
  void operator()(Module*) noexcept { object = Reference(); }
};

// For the class Module: tp_traverse and tp_clear.
extern PyType_Slot module_slots[];

}  // namespace heddle::python
