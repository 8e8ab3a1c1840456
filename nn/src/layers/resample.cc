#include <heddle/layers/resample.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kInterpolations[] = {"nearest", "nearest-exact", "linear", "cubic", "area"};

}  // namespace

Upsample::Upsample(const UpsampleOptions& options)
    : Layer(call_of(
          "Upsample",
          {options.size.empty() ? OperatorValue() : window_value(options.size), options.scale,
           std::string(kInterpolations[static_cast<std::uint8_t>(options.mode)]), options.align_corners},
          CallSite::current())) {}

NDArray Upsample::compute(const NDArray& x) {
  std::uint8_t mode = 0;
  while (text("mode") != kInterpolations[mode]) ++mode;
  InterpolateOptions options{.size = list("size"),
                             .mode = static_cast<Interpolation>(mode),
                             .align_corners = boolean("align_corners")};
  if (options.size.empty()) options.scale = {real("scale")};
  return interpolate(x, options);
}

PixelShuffle::PixelShuffle(std::int64_t factor)
    : Layer(call_of("PixelShuffle", {factor}, CallSite::current())) {}
NDArray PixelShuffle::compute(const NDArray& x) { return pixel_shuffle(x, integer("factor")); }

PixelUnshuffle::PixelUnshuffle(std::int64_t factor)
    : Layer(call_of("PixelUnshuffle", {factor}, CallSite::current())) {}
NDArray PixelUnshuffle::compute(const NDArray& x) { return pixel_unshuffle(x, integer("factor")); }

HEDDLE_LAYERS(resample) {
  table.family("Layers without weights");
  ArgumentInfo mode{
      .name = "mode", .kind = ArgumentKind::text, .default_value = std::string(kInterpolations[0])};
  mode.choices.assign(std::begin(kInterpolations), std::end(kInterpolations));
  table.add<Upsample>(
      {.name = "Upsample",
       .documentation = "Resamples the axes behind the channels to `size`, or for None by `scale`.",
       .arguments =
           {{.name = "size", .kind = ArgumentKind::integers, .default_value = OperatorValue(), .least = 1},
            real_argument("scale", 2.0),
            mode,
            switch_argument("align_corners", false)},
       .input = "(batch, channels, ...)",
       .output = "(batch, channels, ...)"});
  table.add<PixelShuffle>({.name = "PixelShuffle",
                           .documentation = "Makes blocks of factor x factor pixels of channels.",
                           .arguments = {size_argument("factor")},
                           .input = "(batch..., channels, height, width)",
                           .output = "(batch..., channels / factor^2, height * factor, width * factor)"});
  table.add<PixelUnshuffle>({.name = "PixelUnshuffle",
                             .documentation = "Makes channels of blocks of factor x factor pixels.",
                             .arguments = {size_argument("factor")},
                             .input = "(batch..., channels, height, width)",
                             .output = "(batch..., channels * factor^2, height / factor, width / factor)"});
}

}  // namespace heddle
