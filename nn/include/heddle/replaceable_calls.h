// Whether a captured graph may stand for the calls of a module.
#pragma once

#include <heddle/module.h>

namespace heddle {

// Whether the calls of a module push ops that depend on its arguments' shapes, its arrays, its mode and on generators
// alone: it is a layer of the library, a Sequential or a Model, without hooks, and so are the modules in it. False for
// other classes, of which nothing is known.
bool has_replaceable_calls(const Module& module);

}  // namespace heddle
