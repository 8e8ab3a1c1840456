#include <cmath>
#include <cstdint>
#include <string>

#include <heddle/layers/resample.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kInterpolations[] = {"nearest", "nearest-exact", "linear", "cubic", "area"};

}  // namespace

// What interpolate() refuses whatever it is given.
Upsample::Upsample(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  const Dims size = list("size");
  const bool by_size = !value("size").is_none(), by_scale = !value("scale").is_none();
  if (by_size && by_scale) refuse_call(call, "size and scale are given; want one of them");
  if (by_size && (size.empty() || size.size() > 3))
    refuse_call(call, "size is " + size.to_string() + "; want 1 to 3 numbers");
  if (by_scale && !(real("scale") > 0 && std::isfinite(real("scale"))))
    refuse_call(call, "scale is " + number_text(real("scale")) + "; want a number above 0");
  const std::string& mode = text("mode");
  if (boolean("align_corners") && mode != "linear" && mode != "cubic")
    refuse_call(call, "align_corners with mode " + mode + "; want linear or cubic");
}

Upsample::Upsample(const UpsampleOptions& options)
    : Upsample(call_of(
          "Upsample",
          {options.size.empty() ? OperatorValue() : window_value(options.size),
           options.scale ? OperatorValue(*options.scale) : OperatorValue(),
           std::string(kInterpolations[static_cast<std::uint8_t>(options.mode)]), options.align_corners},
          CallSite::current())) {}

NDArray Upsample::compute(const NDArray& x) {
  std::uint8_t mode = 0;
  while (text("mode") != kInterpolations[mode]) ++mode;
  InterpolateOptions options{.size = list("size"),
                             .mode = static_cast<Interpolation>(mode),
                             .align_corners = boolean("align_corners")};
  if (options.size.empty()) options.scale = {value("scale").is_none() ? 2 : real("scale")};
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
       .documentation =
           "Resamples the axes behind the channels to `size` or by `scale`, by 2 if both are None.",
       .arguments =
           {{.name = "size", .kind = ArgumentKind::integers, .default_value = OperatorValue(), .least = 1},
            {.name = "scale", .kind = ArgumentKind::real, .default_value = OperatorValue()},
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
