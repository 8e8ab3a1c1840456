// Pictures of models: a box for each layer and operator, with its output's shape and its parameters.
//
//   save_svg("net.svg", net, {zeros({1, 1, 28, 28})});
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include <heddle/module.h>

namespace heddle {

// The picture as an SVG document. The boxes of a Model are its steps, those of a Sequential its modules; one inside another is opened, any other
// module is one box. With `inputs` the module is called once, in inference and without a tape, and shapes are those of the call; without, a
// Model shows those of its examples, in which "?" is a size of axis 0 that is not known. Throws InvalidArgument for what the module refuses.
std::string to_svg(Module& module, std::span<const NDArray> inputs, Where where = Where::current());
std::string to_svg(Module& module, std::initializer_list<NDArray> inputs = {},
                   Where where = Where::current());

// Writes to_svg() to a file. Throws Error with the path and the reason.
void save_svg(const std::string& path, Module& module, std::span<const NDArray> inputs,
              Where where = Where::current());
void save_svg(const std::string& path, Module& module, std::initializer_list<NDArray> inputs = {},
              Where where = Where::current());

}  // namespace heddle
