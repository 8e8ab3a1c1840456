// How layers are registered, and what their constructors share.
//
//   HEDDLE_LAYERS(pooling) {  // in namespace heddle, in the file of the layers
//     table.family("Pooling");
//     table.add("MaxPool2d", "The largest of each window.", {{"kernel", ArgumentKind::integer}},
//               [](const LayerArguments& a) { return layer(MaxPool2d(a.integer("kernel"))); });
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/layer_init.h>
#include <heddle/layer_registry.h>
#include <heddle/random.h>

namespace heddle::nn_detail {

// The complete arguments of one call, by their names.
class LayerArguments {
 public:
  LayerArguments(const FunctionInfo& layer, const OperatorValues& values) : layer_(layer), values_(values) {}
  std::int64_t integer(const char* name) const { return std::get<std::int64_t>(value(name)); }
  bool boolean(const char* name) const { return std::get<bool>(value(name)); }
  double real(const char* name) const;
  Device device(const char* name) const;         // cpu(0) for None
  Generator& generator(const char* name) const;  // for None the thread's default generator
  Init init(const char* name) const;

 private:
  const OperatorValue& value(const char* name) const;
  const FunctionInfo& layer_;
  const OperatorValues& values_;
};

class LayerTable {
 public:
  explicit LayerTable(std::vector<LayerInfo>& all) : all_(all) {}
  void family(const char* heading) { family_ = heading; }  // sets the heading of the layers that follow
  using Make = std::shared_ptr<Module> (*)(const LayerArguments& arguments);
  void add(const char* name, const char* documentation, std::vector<ArgumentInfo> arguments, Make make);

 private:
  const char* family_ = "";
  std::vector<LayerInfo>& all_;
};

// Arguments that several layers have.
ArgumentInfo size_argument(const char* name);
ArgumentInfo size_argument(const char* name, std::int64_t otherwise);
ArgumentInfo switch_argument(const char* name, bool otherwise);
ArgumentInfo init_argument();       // "init", he or xavier
ArgumentInfo device_argument();     // "device"
ArgumentInfo generator_argument();  // "generator"

template <std::derived_from<Module> L> std::shared_ptr<Module> layer(L made) {
  return std::make_shared<L>(std::move(made));
}

// What constructors and forward() check; errors begin with the layer.
void check_positive(const char* layer, const char* argument, std::int64_t value);
void check_defined(const Module& layer, const NDArray& x);
// `wanted` is the argument's shape in words: "(batch, 784)".
[[noreturn]] void refuse_input(const Module& layer, const NDArray& x, const std::string& wanted);
NDArray zero_bias(std::int64_t size, Device device);

// Heads the function that registers the layers of one file. The build makes the list of these functions by looking for this word
// in the sources (cmake/registrations.cmake).
#define HEDDLE_LAYERS(name)                         \
  namespace nn_detail {                             \
  void register_##name##_layers(LayerTable& table); \
  }                                                 \
  void nn_detail::register_##name##_layers(LayerTable& table)

void register_layers(LayerTable& table);  // registers the library's layers

}  // namespace heddle::nn_detail
