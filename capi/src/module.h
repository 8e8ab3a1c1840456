// The object of a heddle_module handle.
#pragma once

#include <memory>
#include <vector>

#include <heddle/c/module.h>
#include <heddle/module.h>
#include <heddle/module_call.h>

#include "array_handle.h"

struct heddle_module_hook : heddle::c::Handle<heddle::HookHandle, heddle::c::kModuleHook> {
  using Handle::Handle;
};

namespace heddle::c {

struct LinkedModule {
  std::shared_ptr<Module> module;
  EngineLink engine;
};

// The layer's index in the registry of layers. Throws BadHandle if the pointer is no layer of the registry.
std::size_t index_of_layer(const heddle_layer* layer, const char* call);

}  // namespace heddle::c
