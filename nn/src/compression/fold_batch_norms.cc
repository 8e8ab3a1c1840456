#include <algorithm>
#include <cstdint>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/fold_batch_norms.h>
#include <heddle/ops.h>

#include "compression/layer_places.h"

namespace heddle {

using namespace nn_detail;

namespace {

// An array of a layer; undefined if it has none of this name.
NDArray array_of(const Module& module, const std::string& name) {
  const ModuleNode::Entry* const entry = ModuleNode::of(module).find(name);
  return entry ? entry->array : NDArray();
}

OperatorValue* argument_of(const Layer& layer, OperatorValues& values, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (layer.info().arguments[i].name == name) return &values[i];
  return nullptr;
}

bool is_transposed(const Layer& layer) { return layer.info().name.starts_with("ConvTranspose"); }

bool has_foldable_weight(const Layer& layer) {
  const std::string& name = layer.info().name;
  return name == "Dense" || is_transposed(layer) || (name.starts_with("Conv") && name.size() == 6);
}

// What a BatchNorm in inference does: y = x * factor + shift, in f64.
struct NormLine {
  NDArray factor, shift;
  explicit NormLine(const Layer& norm) {
    OperatorValues values = norm.arguments();
    const OperatorValue& epsilon = *argument_of(norm, values, "epsilon");
    const auto* const whole = std::get_if<std::int64_t>(&epsilon);
    const double least = whole ? static_cast<double>(*whole) : std::get<double>(epsilon);
    const auto wide = [&](const char* name) { return array_of(norm, name).detach().astype(DType::f64); };
    factor = 1.0 / sqrt(wide("running_var") + least);
    if (array_of(norm, "weight").defined()) factor = factor * wide("weight");
    shift = -(wide("running_mean") * factor);
    if (array_of(norm, "bias").defined()) shift = shift + wide("bias");
  }
};

std::int64_t groups_of(const Layer& layer) {
  OperatorValues values = layer.arguments();
  const OperatorValue* const groups = argument_of(layer, values, "groups");
  return groups ? std::get<std::int64_t>(*groups) : 1;
}

std::int64_t outputs_of(const Layer& layer, const NDArray& weight) {
  return is_transposed(layer) ? weight.shape()[1] * groups_of(layer) : weight.shape()[0];
}

// The weight times a factor for each output.
NDArray scaled_weight(const Layer& layer, const NDArray& weight, const NDArray& factor) {
  Shape by = Dims::filled(weight.ndim(), 1), as = weight.shape();
  by[0] = factor.size();
  if (is_transposed(layer)) {  // (groups, in / groups, out / groups, kernel...)
    const std::int64_t groups = groups_of(layer);
    as = {groups, weight.shape()[0] / groups};
    by = {groups, 1, weight.shape()[1]};
    for (int axis = 1; axis < weight.ndim(); ++axis) as.push_back(weight.shape()[axis]);
    for (int axis = 2; axis < weight.ndim(); ++axis) by.push_back(1);
  }
  const NDArray product = reshape(weight.detach().astype(DType::f64), as) * reshape(factor, by);
  return reshape(product, weight.shape()).astype(weight.dtype());
}

// The layer with the norm in it.
std::shared_ptr<Module> folded(const Layer& layer, const Layer& norm) {
  const NormLine line(norm);
  const NDArray weight = array_of(layer, "weight"), bias = array_of(layer, "bias");
  NDArray shift = line.shift;
  if (bias.defined()) shift = shift + bias.detach().astype(DType::f64) * line.factor;
  OperatorValues values = layer.arguments();
  *argument_of(layer, values, "bias") = true;
  std::shared_ptr<Module> made = blank_layer(layer.info().name, values, {weight.shape(), shift.shape()});
  const auto is_frozen = [](const NDArray& array) { return !array.defined() || !is_leaf(array); };
  const bool bias_frozen =
      is_frozen(bias) && is_frozen(array_of(norm, "weight")) && is_frozen(array_of(norm, "bias"));
  put_array(*made, "weight", scaled_weight(layer, weight, line.factor), is_frozen(weight));
  put_array(*made, "bias", shift.astype(weight.dtype()), bias_frozen);
  if (layer.autocast()) made->autocast(layer.autocast());
  return made;
}

bool has_relu(const Layer& layer) {
  OperatorValues values = layer.arguments();
  const OperatorValue* const relu = argument_of(layer, values, "relu");
  return relu && std::get<bool>(*relu);
}

// The place whose results the norm alone takes; places that do nothing are passed over. Null: there is none.
LayerPlace* place_before(const LayerPlace& norm) {
  LayerPlace* before = norm.previous;
  while (before && before->layer() && before->layer()->info().name == "Identity" &&
         !has_hooks(*before->module))
    before = before->previous;
  return before;
}

// Why the norm cannot become part of the layer before it; empty: it can.
std::string obstacle(const LayerPlace& norm, const LayerPlace* before) {
  if (norm.is_root()) return kRootStays;
  if (!norm.replaceable()) return "its order is not known: it is in a class of the program's own";
  if (!before) return "no layer is known whose results it alone takes";
  if (!before->module) return "'" + before->op + "' is before it; want Dense, Conv or ConvTranspose";
  const Layer* const layer = before->layer();
  if (!layer || !has_foldable_weight(*layer))
    return "'" + before->path + "' before it is no Dense, Conv or ConvTranspose";
  if (before->calls > 1) return "'" + before->path + "' before it is used several times";
  if (has_relu(*layer)) return "'" + before->path + "' before it ends in a relu";
  if (has_hooks(*before->module) || has_hooks(*norm.module))
    return "it, or '" + before->path + "', has hooks";
  if (layer->info().name == "Dense" && before->result_axes > 2)
    return "the results of '" + before->path + "' have more than two axes";
  const std::int64_t outputs = outputs_of(*layer, array_of(*layer, "weight")),
                     channels = array_of(*norm.module, "running_mean").size();
  if (outputs != channels)
    return "'" + before->path + "' has " + std::to_string(outputs) + " outputs, and the norm " +
           std::to_string(channels) + " channels";
  return "";
}

// Throws InvalidArgument if one of the norms is not ready.
void check_norms(const std::vector<LayerPlace*>& norms) {
  for (const LayerPlace* norm : norms) {
    if (norm->module->training())
      throw InvalidArgument(
          "fold_batch_norms: '" + norm->path +
          "' is in training mode, in which it normalises by the batch; call net.train(false)");
    for (const LayerPlace* place : {norm, static_cast<const LayerPlace*>(place_before(*norm))}) {
      if (!place || !place->layer()) continue;
      for (const ModuleNode::Entry& entry : ModuleNode::of(*place->module).entries)
        if (entry.pending)
          throw InvalidArgument("fold_batch_norms: '" + place->path + "." + entry.name +
                                "' has no shape before the first call of its layer; call the module once");
    }
  }
}

}  // namespace

std::string FoldReport::to_string() const {
  std::string text;
  for (const Folded& one : folded) text += "'" + one.norm + "' became part of '" + one.into + "'\n";
  for (const Kept& one : kept) text += "'" + one.norm + "' stays: " + one.reason + "\n";
  return text.empty() ? "there are no batch norms\n" : text;
}

FoldReport fold_batch_norms(Module& net, Where where) {
  const CallSite site(where);
  const NoGrad no_grad;
  LayerPlaces places(net);
  std::vector<LayerPlace*> norms;
  for (LayerPlace& place : places.all())
    if (const Layer* const layer = place.layer(); layer && layer->info().name == "BatchNorm")
      norms.push_back(&place);
  check_norms(norms);
  FoldReport report;
  for (LayerPlace* const norm : norms) {
    LayerPlace* const before = place_before(*norm);
    std::string reason = obstacle(*norm, before);
    // A second norm behind the first one is folded by another call.
    if (reason.empty() && before->replacement) reason = "another norm became part of '" + before->path + "'";
    if (!reason.empty()) {
      report.kept.push_back({norm->path, std::move(reason)});
      continue;
    }
    before->replacement = folded(*before->layer(), *norm->layer());
    norm->removed = true;
    report.folded.push_back({norm->path, before->path});
  }
  if (!report.folded.empty()) places.commit();
  return report;
}

}  // namespace heddle
