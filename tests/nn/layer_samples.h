// A layer of each kind, for tests of all of them.
#pragma once

#include <cstdint>
#include <memory>

#include <heddle/layer_registry.h>

namespace heddle::test {

// Made with what its arguments require: 2 for sizes, 0.5 for numbers.
inline std::shared_ptr<Module> sample_of(const LayerInfo& layer) {
  OperatorValues required;
  for (const ArgumentInfo& argument : layer.arguments) {
    if (!argument.required()) break;
    if (argument.kind == ArgumentKind::real)
      required.push_back(0.5);
    else
      required.push_back(std::int64_t{2});
  }
  return make_layer(layer, required);
}

}  // namespace heddle::test
