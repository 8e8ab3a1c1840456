// What stands behind a heddle_module.
#pragma once

#include <memory>
#include <vector>

#include <heddle/c/module.h>
#include <heddle/module.h>

#include "array_handle.h"

namespace heddle::c {

struct LinkedModule {
  std::shared_ptr<Module> module;
  EngineLink engine;
};

// Throws BadHandle for a pointer to no layer.
std::size_t index_of_layer(const heddle_layer* layer, const char* call);

}  // namespace heddle::c
