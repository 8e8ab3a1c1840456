#include <cmath>

#include <heddle/dropout.h>
#include <heddle/layers/dropout.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

const LayerCall& checked(const LayerCall& call) {
  const double number = real_value(call.values, 0);
  const std::string& name = call.info->arguments[0].name;
  if (name == "stddev") {
    if (number >= 0 && std::isfinite(number)) return call;
    throw InvalidArgument(call.info->name + ": stddev is " + number_text(number) + "; want 0 or more");
  }
  if (number >= 0 && number < 1) return call;
  throw InvalidArgument(call.info->name + ": the probability must be in [0, 1), not " + number_text(number));
}

// The registry's layers take no generator, since they would have to keep it, and lock it in each call, as long as they live.
LayerSpec dropout_spec(const char* name, const char* documentation, const char* shape = "",
                       const char* number = "probability") {
  return {.name = name,
          .documentation = documentation,
          .arguments = {{.name = number, .kind = ArgumentKind::real}},
          .input = shape,
          .output = shape};
}

}  // namespace

#define HEDDLE_DROPOUT_LAYER(layer, function, number)                                       \
  layer::layer(const LayerCall& call) : RandomLayer(checked(call)) {}                       \
  layer::layer(double number) : layer(call_of(#layer, {number}, CallSite::current())) {}    \
  layer::layer(double number, Generator& generator)                                         \
      : RandomLayer(checked(call_of(#layer, {number}, CallSite::current())), &generator) {} \
  NDArray layer::compute(const NDArray& x) { return function(x, real(#number), generator(), training()); }

HEDDLE_DROPOUT_LAYER(Dropout, dropout, probability)
HEDDLE_DROPOUT_LAYER(ChannelDropout, channel_dropout, probability)
HEDDLE_DROPOUT_LAYER(Dropout1d, channel_dropout, probability)
HEDDLE_DROPOUT_LAYER(Dropout2d, channel_dropout, probability)
HEDDLE_DROPOUT_LAYER(Dropout3d, channel_dropout, probability)
HEDDLE_DROPOUT_LAYER(AlphaDropout, alpha_dropout, probability)
HEDDLE_DROPOUT_LAYER(FeatureAlphaDropout, feature_alpha_dropout, probability)
HEDDLE_DROPOUT_LAYER(GaussianDropout, gaussian_dropout, probability)
HEDDLE_DROPOUT_LAYER(GaussianNoise, gaussian_noise, stddev)
#undef HEDDLE_DROPOUT_LAYER

HEDDLE_LAYERS(dropout) {
  table.family("Layers without weights");
  table.add<Dropout>(dropout_spec("Dropout", "In training zeroes each element with this probability."));
  table.add<ChannelDropout>(dropout_spec(
      "ChannelDropout", "In training zeroes each channel with this probability.", "(batch, channels, ...)"));
  table.add<Dropout1d>(dropout_spec("Dropout1d", "ChannelDropout of signals.", "(batch, channels, length)"));
  table.add<Dropout2d>(
      dropout_spec("Dropout2d", "ChannelDropout of images.", "(batch, channels, height, width)"));
  table.add<Dropout3d>(
      dropout_spec("Dropout3d", "ChannelDropout of volumes.", "(batch, channels, depth, height, width)"));
  table.add<AlphaDropout>(dropout_spec(
      "AlphaDropout",
      "As Dropout, behind Selu: keeps the mean 0 and the variance 1 (Klambauer et al., NeurIPS'17)."));
  table.add<FeatureAlphaDropout>(
      dropout_spec("FeatureAlphaDropout", "AlphaDropout of whole channels.", "(batch, channels, ...)"));
  table.add<GaussianDropout>(
      dropout_spec("GaussianDropout",
                   "In training multiplies by normal numbers around 1, as varied as those of Dropout."));
  table.add<GaussianNoise>(
      dropout_spec("GaussianNoise", "In training adds normal numbers around 0 with this standard deviation.",
                   "", "stddev"));
}

}  // namespace heddle
