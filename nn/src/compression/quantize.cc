#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/number_text.h>
#include <heddle/ops.h>
#include <heddle/quantize.h>

#include "compression/layer_places.h"

namespace heddle {

using namespace nn_detail;

namespace {

[[noreturn]] void fail_quantize(const std::string& problem) { throw InvalidArgument("quantize: " + problem); }

// A layer that gets 8-bit products, and what calibration has found.
struct Quantized {
  LayerPlace* place = nullptr;
  LayerPlace* relu = nullptr;  // becomes part of the layer; null: none
  NDArray low{}, high{};       // of the input; with percentiles sums over the batches
  std::int64_t calls = 0;
  float scale = 1;
  int zero_point = 0;
  std::shared_ptr<Module> made{};
  NDArray difference{}, size{};  // sums of squares, f64
};

// Hooks that are removed at the end.
class Hooks {
 public:
  Hooks() = default;
  ~Hooks() {
    for (HookHandle& one : all_) one.remove();
  }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;
  void add(HookHandle handle) { all_.push_back(std::move(handle)); }

 private:
  std::vector<HookHandle> all_;
};

bool is_quantizable(const Layer& layer) {
  const std::string& name = layer.info().name;
  return name == "Dense" || name == "Conv1d" || name == "Conv2d" || name == "Conv3d";
}

NDArray buffer_or_parameter(const Module& module, const char* name) {
  const ModuleNode::Entry* const entry = ModuleNode::of(module).find(name);
  return entry ? entry->array.detach() : NDArray();
}

// Why a layer stays as it is; empty: it can be quantized.
std::string reason_to_keep(const LayerPlace& place, const QuantizeOptions& options) {
  if (place.is_root()) return kRootStays;
  if (std::find(options.skip.begin(), options.skip.end(), place.path) != options.skip.end()) return "skipped";
  if (!place.replaceable()) return "it is held by a class that is no Sequential and no Model";
  if (has_hooks(*place.module)) return "it has hooks";
  for (const ModuleNode::Entry& entry : ModuleNode::of(*place.module).entries) {
    if (entry.pending) return "it has not been called, so that its sizes are not known";
    if (entry.array.dtype() != DType::f32) return std::string("it is ") + name_of(entry.array.dtype());
  }
  const NDArray weight = buffer_or_parameter(*place.module, "weight");
  if (weight.size() / weight.shape()[0] > kMostByteProducts) return "its sums do not fit into 32 bits";
  return "";
}

bool is_bare(const LayerPlace& place, const char* name) {
  const Layer* const layer = place.layer();
  return layer && layer->info().name == name && !has_hooks(*place.module);
}

// The relu that alone takes the results of a place; places that do nothing are passed over. Null: there is none.
LayerPlace* relu_after(const LayerPlace& place) {
  LayerPlace* next = place.next;
  while (next && is_bare(*next, "Identity")) next = next->next;
  const bool is_relu = next && (next->module ? is_bare(*next, "Relu") : next->op == "relu");
  return is_relu ? next : nullptr;
}

// Hooks share them: a call on another thread may still hold a hook that has been removed.
using QuantizedLayers = std::vector<std::shared_ptr<Quantized>>;

QuantizedLayers candidates(LayerPlaces& places, const QuantizeOptions& options, QuantizeReport& report) {
  QuantizedLayers all;
  std::vector<std::string> unknown = options.skip;
  for (LayerPlace& place : places.all()) {
    if (place.module && place.module->training())
      fail_quantize("'" + place.path + "' is in training mode; call net.train(false)");
    const Layer* const layer = place.layer();
    if (!layer || !is_quantizable(*layer)) continue;
    unknown.erase(std::remove(unknown.begin(), unknown.end(), place.path), unknown.end());
    std::string reason = reason_to_keep(place, options);
    if (reason.empty())
      all.push_back(std::make_shared<Quantized>(Quantized{.place = &place, .relu = relu_after(place)}));
    else
      report.kept.push_back({place.path, std::move(reason)});
  }
  if (!unknown.empty()) fail_quantize("skip: there is no Dense or Conv '" + unknown[0] + "'");
  return all;
}

// Notes the range of one input.
void observe(Quantized& layer, const NDArray& x, double percentile) {
  const NoGrad no_grad;
  const NDArray values = x.detach().astype(DType::f32);
  if (values.size() == 0) return;
  ++layer.calls;
  if (percentile >= 100) {
    const NDArray low = min(values), high = max(values);
    layer.low = layer.low.defined() ? minimum(layer.low, low) : low;
    layer.high = layer.high.defined() ? maximum(layer.high, high) : high;
    return;
  }
  const NDArray low = quantile(values, 1 - percentile / 100), high = quantile(values, percentile / 100);
  layer.low = layer.low.defined() ? layer.low + low : low;
  layer.high = layer.high.defined() ? layer.high + high : high;
}

// The scale and the zero point of what was observed.
void choose_scale(Quantized& layer, double percentile) {
  const double count = percentile >= 100 ? 1 : static_cast<double>(layer.calls);
  double low = layer.low.item().real() / count, high = layer.high.item().real() / count;
  if (!std::isfinite(low) || !std::isfinite(high))
    fail_quantize("the input of '" + layer.place->path + "' has numbers that are NaN or infinite, from " +
                  number_text(low) + " to " + number_text(high));
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  layer.scale = static_cast<float>((high - low) / 255);
  if (!(layer.scale > 0) || !std::isfinite(1 / layer.scale)) layer.scale = 1;
  layer.zero_point =
      static_cast<int>(std::clamp<long>(std::lround(-low / static_cast<double>(layer.scale)), 0, 255));
}

// The arguments of the quantized layer: those of the layer that both have.
OperatorValues quantized_arguments(const Layer& layer, const LayerInfo& quantized, bool relu) {
  const OperatorValues given = layer.arguments();
  OperatorValues values;
  for (const ArgumentInfo& argument : quantized.arguments)
    for (std::size_t i = 0; i < given.size(); ++i)
      if (layer.info().arguments[i].name == argument.name)
        values.push_back(argument.name == "relu" && relu ? OperatorValue(true) : given[i]);
  return values;
}

std::shared_ptr<Module> quantized_layer(const Quantized& of) {
  const Layer& layer = *of.place->layer();
  const LayerInfo& info = *find_layer("Quantized" + layer.info().name);
  const NDArray weight = buffer_or_parameter(layer, "weight"), bias = buffer_or_parameter(layer, "bias");
  const std::int64_t outputs = weight.shape()[0];
  const NDArray rows = reshape(weight, {outputs, weight.size() / outputs});
  const NDArray largest = max(abs(rows), {1}, true);
  const NDArray scale = where(greater(largest, 0), largest / 127.0, 1.0);  // (outputs, 1)
  const NDArray bytes = minimum(maximum(round(rows / scale), -127), 127).astype(DType::i8);
  std::shared_ptr<Module> made = blank_layer(info.name, quantized_arguments(layer, info, of.relu != nullptr),
                                             {weight.shape(), {outputs}, {1}});
  put_array(*made, "weight", reshape(bytes, weight.shape()));
  put_array(*made, "weight_scale", reshape(scale, {outputs}));
  if (bias.defined()) put_array(*made, "bias", bias.copy());
  put_array(*made, "input_scale", full({1}, of.scale, DType::f32, weight.device()));
  put_array(*made, "input_zero_point", full({1}, of.zero_point, DType::i32, weight.device()));
  return made;
}

// Adds the error of one call.
void compare(Quantized& layer, const NDArray& x, const NDArray& y) {
  const NoGrad no_grad;
  const NDArray wanted = (layer.relu ? relu(y.detach()) : y.detach()).astype(DType::f64);
  const NDArray found = (*layer.made)(x.detach(), CallSite::current()).astype(DType::f64);
  const NDArray difference = sum(square(found - wanted)), size = sum(square(wanted));
  layer.difference = layer.difference.defined() ? layer.difference + difference : difference;
  layer.size = layer.size.defined() ? layer.size + size : size;
}

double error_of(const Quantized& layer) {
  const double difference = layer.difference.item().real(), size = layer.size.item().real();
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

std::int64_t state_bytes(const Module& net) {
  std::int64_t bytes = 0;
  for (const Parameter& one : net.state())
    bytes += one.value.size() * static_cast<std::int64_t>(size_of(one.value.dtype()));
  return bytes;
}

void check_quantize(const Module& net, const QuantizeOptions& options) {
  if (!(options.percentile > 50 && options.percentile <= 100))
    fail_quantize("percentile is " + number_text(options.percentile) + "; want more than 50, to 100");
  if (!(options.max_error >= 0))
    fail_quantize("max_error is " + number_text(options.max_error) + "; want 0 or more");
  if (net.training()) fail_quantize("the module is in training mode; call net.train(false)");
}

void check_interrupt(const QuantizeOptions& options) {
  if (options.check_interrupt) options.check_interrupt();
}

// Calls of other threads are not those of the calibration.
void calibrate_ranges(const QuantizedLayers& layers, const std::function<void()>& calibrate,
                      double percentile) {
  Hooks hooks;
  for (const auto& one : layers)
    hooks.add(one->place->module->before_call(
        [one, percentile, thread = std::this_thread::get_id()](const Module&, std::span<const NDArray> inputs,
                                                               std::span<NDArray>) {
          if (std::this_thread::get_id() == thread) observe(*one, inputs[0], percentile);
        }));
  calibrate();
}

void measure_errors(const QuantizedLayers& layers, const std::function<void()>& calibrate) {
  Hooks hooks;
  for (const auto& one : layers)
    if (one->made)
      hooks.add(one->place->module->after_call(
          [one, thread = std::this_thread::get_id()](const Module&, std::span<const NDArray> inputs,
                                                     std::span<NDArray> outputs) {
            if (std::this_thread::get_id() == thread) compare(*one, inputs[0], outputs[0]);
          }));
  calibrate();
}

// Puts the quantized layers whose error is small enough in their places.
void put_quantized(const QuantizedLayers& layers, const QuantizeOptions& options, QuantizeReport& report) {
  for (const auto& layer : layers) {
    Quantized& one = *layer;
    if (!one.made) continue;
    const double error = one.calls > 0 ? error_of(one) : 0;
    if (!(error <= options.max_error)) {
      report.kept.push_back({one.place->path, "its error is " + number_text(error)});
      continue;
    }
    report.layers.push_back(
        {one.place->path, one.place->module->to_string(), double{one.scale}, one.zero_point, error});
    one.place->replacement = one.made;
    if (one.relu) one.relu->removed = true;
  }
}

}  // namespace

std::string QuantizeReport::to_string() const {
  std::string text;
  for (const Row& row : layers) {
    char error[32];
    std::snprintf(error, sizeof error, "%.4f", row.error);
    text += "'" + row.path + "' " + row.layer + ": error " + error + "\n";
  }
  for (const Kept& one : kept) text += "'" + one.path + "' stays: " + one.reason + "\n";
  return text + std::to_string(bytes_before) + " bytes became " + std::to_string(bytes_after) + "\n";
}

QuantizeReport quantize(Module& net, const std::function<void()>& calibrate, const QuantizeOptions& options,
                        Where where) {
  const CallSite site(where);
  if (!calibrate) fail_quantize("there is no function that calls the module");
  check_quantize(net, options);
  const NoGrad no_grad;
  QuantizeReport report;
  report.bytes_before = state_bytes(net);
  LayerPlaces places(net);
  const QuantizedLayers layers = candidates(places, options, report);
  check_interrupt(options);
  calibrate_ranges(layers, calibrate, options.percentile);
  bool called = layers.empty();
  for (const auto& layer : layers) {
    Quantized& one = *layer;
    if (one.calls == 0) {
      report.kept.push_back({one.place->path, "it was not called in calibration"});
      continue;
    }
    called = true;
    choose_scale(one, options.percentile);
    one.made = quantized_layer(one);
  }
  if (!called) fail_quantize("calibration has called none of the layers; want batches of examples");
  check_interrupt(options);
  measure_errors(layers, calibrate);
  put_quantized(layers, options, report);
  check_interrupt(options);
  if (!report.layers.empty()) places.commit();
  report.bytes_after = state_bytes(net);
  return report;
}

QuantizeReport quantize(Module& net, const std::vector<NDArray>& batches, const QuantizeOptions& options,
                        Where where) {
  const CallSite site(where);
  if (batches.empty()) fail_quantize("there are no batches for calibration");
  return quantize(
      net,
      [&] {
        for (const NDArray& batch : batches) {
          check_interrupt(options);
          net(batch, CallSite::current());
        }
      },
      options, where);
}

}  // namespace heddle
