// The registry of layers.
#include <deque>

#include <heddle/c/module.h>
#include <heddle/layer_registry.h>

#include "module.h"
#include "operator_description.h"

using namespace heddle;
using namespace heddle::c;

namespace {

const FunctionDescription& description_of_layer(std::size_t index) {
  static const std::deque<FunctionDescription>& immortal = *[] {
    auto* all = new std::deque<FunctionDescription>;
    for (const LayerInfo& layer : layers()) all->emplace_back(layer);
    return all;
  }();
  return immortal[index];
}

const heddle_layer* handle_of_layer(const LayerInfo& layer) {
  return reinterpret_cast<const heddle_layer*>(&layer);
}

}  // namespace

std::size_t heddle::c::index_of_layer(const heddle_layer* layer, const char* call) {
  return index_in(layers(), layer, "heddle_layer", call);
}

heddle_status heddle_layer_count(size_t* count) {
  return called(nullptr, [&] {
    check_out(count, "heddle_layer_count", "count");
    *count = layers().size();
  });
}

heddle_status heddle_layer_at(size_t index, const heddle_layer** layer, heddle_error** error) {
  return called(error, [&] {
    check_out(layer, "heddle_layer_at", "layer");
    if (index >= layers().size())
      throw InvalidArgument("heddle_layer_at: index " + std::to_string(index) + " of " +
                            std::to_string(layers().size()) + " layers");
    *layer = handle_of_layer(layers()[index]);
  });
}

heddle_status heddle_layer_find(const char* name, const heddle_layer** layer, heddle_error** error) {
  return called(error, [&] {
    const std::string wanted = text_of(name, "heddle_layer_find", "name");
    check_out(layer, "heddle_layer_find", "layer");
    const LayerInfo* const found = find_layer(wanted);
    if (!found) throw InvalidArgument("heddle_layer_find: there is no layer '" + wanted + "'");
    *layer = handle_of_layer(*found);
  });
}

heddle_status heddle_layer_describe(const heddle_layer* layer, heddle_layer_info* info,
                                    heddle_error** error) {
  return called(error, [&] {
    const std::size_t index = index_of_layer(layer, "heddle_layer_describe");
    check_struct(info, "heddle_layer_describe", "heddle_layer_info");
    const LayerInfo& of = layers()[index];
    const FunctionDescription& described = description_of_layer(index);
    *info = {.struct_size = sizeof(heddle_layer_info),
             .name = of.name.c_str(),
             .family = of.family.c_str(),
             .documentation = of.documentation.c_str(),
             .signature = described.signature(),
             .argument_count = described.argument_count(),
             .array_count = of.arrays.size()};
  });
}

heddle_status heddle_layer_argument(const heddle_layer* layer, size_t index, heddle_argument_info* info,
                                    heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_layer_argument";
    const FunctionDescription& described = description_of_layer(index_of_layer(layer, kCall));
    check_struct(info, kCall, "heddle_argument_info");
    *info = described.argument(index, kCall);
  });
}

heddle_status heddle_layer_array(const heddle_layer* layer, size_t index, heddle_layer_array_info* info,
                                 heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_layer_array";
    const LayerInfo& of = layers()[index_of_layer(layer, kCall)];
    check_struct(info, kCall, "heddle_layer_array_info");
    if (index >= of.arrays.size())
      throw InvalidArgument(std::string(kCall) + ": array " + std::to_string(index) + " of the " +
                            std::to_string(of.arrays.size()) + " of " + of.name);
    const LayerArray& array = of.arrays[index];
    *info = {.struct_size = sizeof(heddle_layer_array_info),
             .name = array.name.c_str(),
             .shape = array.shape.c_str(),
             .start = array.start.c_str(),
             .condition = array.condition.c_str(),
             .trained = array.trained};
  });
}
