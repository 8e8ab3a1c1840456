// Every layer of the library by its name, for other languages: what it takes, what it has, and a call that makes one. C++ programs
// use the classes themselves.
//
//   std::shared_ptr<Module> pool = make_layer("MaxPool2d", {2});  // MaxPool2d(2)
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <heddle/function_info.h>
#include <heddle/module.h>

namespace heddle {

// A parameter or buffer of a layer.
struct LayerArray {
  std::string name;
  std::string shape;        // in words, of arguments: "(out_channels, in_channels / groups, kernel...)"
  std::string start;        // its initial value, in words
  std::string condition{};  // the argument that has to be true; empty: every such layer has the array
  bool trained = true;      // false: a buffer
};

// An array beside the first one that a layer takes, which may be missing, or makes.
struct LayerPort {
  std::string name;           // Python's keyword
  std::string shape;          // in words; empty: any
  std::string documentation;  // plain text on one line
};

namespace nn_detail {
struct LayerRules;
}

struct LayerInfo : FunctionInfo {
  // Shapes in words: "(batch, in_channels, height, width)". Empty: the layer takes arrays of any shape, and keeps it.
  std::string input, output;
  std::vector<LayerPort> more_inputs{}, more_outputs{};  // those of Module::run behind the first ones
  std::vector<LayerArray> arrays{};                      // in the order in which they are made and registered
  std::string
      more_arrays{};  // in words: arrays behind these, whose number depends on arguments; empty: there are none
  std::shared_ptr<const nn_detail::LayerRules> rules{};
  std::function<std::shared_ptr<Module>(const OperatorValues& complete)> make;  // called by make_layer
  const std::type_info* type = nullptr;                                         // the class in C++
};

// All layers, by family and then in the order of registration. Any thread; the same objects for the life of the process.
std::span<const LayerInfo> layers();
const LayerInfo* find_layer(std::string_view name);  // null if there is none

// Makes a layer: `values` are its first arguments, in their order, `named` are others. Throws InvalidArgument for what
// complete_arguments() refuses, and whatever the layer's constructor throws. Initial values are drawn at `where`.
std::shared_ptr<Module> make_layer(const LayerInfo& layer, std::span<const OperatorValue> values,
                                   std::span<const NamedValue> named = {}, Where where = Where::current());
// Makes a layer by its name. Throws InvalidArgument for an unknown name.
std::shared_ptr<Module> make_layer(std::string_view name, const OperatorValues& values,
                                   const std::vector<NamedValue>& named = {}, Where where = Where::current());

}  // namespace heddle
