// How layers are registered, and what their constructors share.
//
//   HEDDLE_LAYERS(dense) {  // in namespace heddle, in the file of the layers
//     table.family("Layers with weights");
//     table.add<Dense>({.name = "Dense",
//                       .documentation = "x @ weight.T + bias.",
//                       .arguments = {inferred_size("in_features"), size_argument("out_features"), init_argument()},
//                       .arrays = {weight_array("weight", "(out_features, in_features)")},
//                       .input = "(batch, in_features)",
//                       .output = "(batch, out_features)"});
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <heddle/creation.h>
#include <heddle/layer.h>
#include <heddle/layer_registry.h>
#include <heddle/random.h>

#include "layers/shape_rule.h"

namespace heddle {
class Dense;
}

namespace heddle::nn_detail {

enum class Start : std::uint8_t {
  weight,     // as the argument "init" says
  normal,     // normal around 0 with the argument "stddev" as its standard deviation
  recurrent,  // uniform in +-1 / sqrt(the argument "hidden_size")
  zeros,
  ones
};

struct ArraySpec {
  LayerArray described;
  Start start;
  DType dtype = DType::f32;  // another one for zeros
};
ArraySpec weight_array(const char* name, const char* shape);
ArraySpec normal_array(const char* name, const char* shape);
ArraySpec recurrent_array(const std::string& name, const std::string& shape, const char* condition = "");
ArraySpec zeros_array(const char* name, const char* shape, const char* condition = "");
ArraySpec ones_array(const char* name, const char* shape, const char* condition = "");
ArraySpec buffer_of(ArraySpec array, DType dtype = DType::f32);  // the same as a buffer

// Arrays whose number depends on arguments, such as the number of layers; they follow LayerSpec::arrays.
struct MoreArrays {
  const char* documentation = "";  // LayerInfo::more_arrays
  std::vector<ArraySpec> (*make)(const FindSize& find) = nullptr;
};

// A layer's rules in the form in which calls use them.
struct LayerRules {
  struct Array {
    explicit Array(const ArraySpec& spec)
        : described(spec.described), shape(spec.described.shape), start(spec.start), dtype(spec.dtype) {}
    LayerArray described;
    ShapeRule shape;
    Start start;
    DType dtype;
  };
  bool has_input = false;
  ShapeRule input;
  std::vector<std::optional<ShapeRule>> more_inputs;  // as LayerInfo::more_inputs; none: any shape
  std::vector<Array> arrays;                          // as LayerInfo::arrays
  MoreArrays more_arrays;
};

struct LayerSpec {
  const char* name;
  std::string documentation;
  std::vector<ArgumentInfo> arguments{};
  std::vector<ArraySpec> arrays{};
  const char* input = "";  // LayerInfo::input
  const char* output = "";
  std::vector<LayerPort> more_inputs{}, more_outputs{};
  MoreArrays more_arrays{};
};

class LayerTable {
 public:
  explicit LayerTable(std::vector<LayerInfo>& all) : all_(all) {}
  void family(const char* heading) { family_ = heading; }  // sets the heading of the layers that follow
  // A class with the constructor of Layer.
  template <std::derived_from<Layer> L> void add(LayerSpec spec) {
    insert(
        std::move(spec),
        [](const LayerCall& call) -> std::shared_ptr<Module> { return std::make_shared<L>(call); },
        typeid(L));
  }

 private:
  using Make = std::shared_ptr<Module> (*)(const LayerCall& call);
  void insert(LayerSpec spec, Make make, const std::type_info& type);

  const char* family_ = "";
  std::vector<LayerInfo>& all_;
};

// Arguments that several layers have. Sizes are 1 or more.
ArgumentInfo size_argument(const char* name);
ArgumentInfo inferred_size(const char* name);  // a size that may be None, see kInferred
ArgumentInfo size_or_none(const char* name);   // a size that None stands for
ArgumentInfo integer_argument(const char* name, std::int64_t otherwise, std::int64_t least = 0);
ArgumentInfo window_argument(const char* name, int length);  // sizes along `length` axes, or one for all
ArgumentInfo window_argument(const char* name, int length, std::int64_t otherwise, std::int64_t least = 0);
ArgumentInfo switch_argument(const char* name, bool otherwise);
ArgumentInfo real_argument(const char* name, double otherwise);
ArgumentInfo init_argument();       // "init", he or xavier
ArgumentInfo device_argument();     // "device"
ArgumentInfo generator_argument();  // "generator"

// Values of a typed constructor.
inline OperatorValue inferred_value(std::int64_t size) {
  return size == kInferred ? OperatorValue() : OperatorValue(size);
}
inline OperatorValue optional_value(const std::optional<std::int64_t>& size) {
  return size ? OperatorValue(*size) : OperatorValue();
}
OperatorValue init_value(Init init);
OperatorValue window_value(const Dims& window);
LayerCall call_of(const char* layer, const OperatorValues& values, Where where);
// Throws InvalidArgument: "Conv2d: <why>".
[[noreturn]] void refuse_call(const LayerCall& call, const std::string& why);
// Dense(in, out) inside a layer whose call has the arguments bias, init, device and generator.
Dense make_dense(const LayerCall& call, std::int64_t in, std::int64_t out);

double real_value(const OperatorValues& values, std::size_t i);  // of a number that may be an integer

// Heads the function that registers the layers of one file. The build makes the list of these functions by looking for this word
// in the sources (cmake/registrations.cmake).
#define HEDDLE_LAYERS(name)                         \
  namespace nn_detail {                             \
  void register_##name##_layers(LayerTable& table); \
  }                                                 \
  void nn_detail::register_##name##_layers(LayerTable& table)

void register_layers(LayerTable& table);  // registers the library's layers

}  // namespace heddle::nn_detail
