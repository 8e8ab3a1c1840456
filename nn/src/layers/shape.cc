#include <string>

#include <heddle/layers/shape.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

LayerCall pad_call(const char* layer, const Dims& before, const Dims& after) {
  return call_of(layer, {window_value(before), after.empty() ? OperatorValue() : window_value(after)},
                 CallSite::current());
}

// The widths for all axes of x from those of its spatial axes, of which one may stand for all.
Dims widths_of(const char* layer, const char* name, const Dims& given, const NDArray& x) {
  const int axes = x.ndim() - 2;
  if (given.size() != 1 && given.size() != axes)
    throw InvalidArgument(std::string(layer) + ": " + name + " is " + given.to_string() + ", the input is " +
                          x.shape().to_string() +
                          "; want one number, or one for each axis behind the channels");
  Dims widths{0, 0};
  for (int i = 0; i < axes; ++i) widths.push_back(given[given.size() == 1 ? 0 : i]);
  return widths;
}

NDArray padded(const char* layer, const NDArray& x, const Dims& before, const Dims& after, PadMode mode) {
  return pad(x, widths_of(layer, "before", before, x),
             after.empty() ? widths_of(layer, "before", before, x) : widths_of(layer, "after", after, x),
             mode);
}

ArgumentInfo widths_argument(const char* name) {
  return {.name = name, .kind = ArgumentKind::integers, .least = 0};
}

LayerSpec pad_spec(const char* name, const char* documentation) {
  ArgumentInfo after = widths_argument("after");
  after.default_value = OperatorValue();
  return {.name = name,
          .documentation = documentation,
          .arguments = {widths_argument("before"), std::move(after)},
          .input = "(batch, channels, ...)",
          .output = "(batch, channels, ...)"};
}

}  // namespace

Identity::Identity() : Layer(call_of("Identity", {}, CallSite::current())) {}
NDArray Identity::compute(const NDArray& x) { return x; }

Unflatten::Unflatten(int axis, const Dims& sizes)
    : Layer(call_of("Unflatten", {std::int64_t{axis}, sizes}, CallSite::current())) {}

NDArray Unflatten::compute(const NDArray& x) {
  const std::int64_t given = integer("axis");
  if (given < -x.ndim() || given >= x.ndim()) refuse_input(x, "an array with axis " + std::to_string(given));
  const auto axis = static_cast<int>(given < 0 ? given + x.ndim() : given);
  Shape shape;
  for (int d = 0; d < axis; ++d) shape.push_back(x.shape()[d]);
  const Dims sizes = list("sizes");
  std::int64_t known = 1;
  int inferred = 0;
  for (const std::int64_t size : sizes) size == -1 ? void(++inferred) : void(known *= size);
  const std::int64_t length = x.shape()[axis];
  if (inferred > 1 || (inferred == 1 ? known == 0 || length % known != 0 : known != length))
    refuse_input(x, "an array whose axis " + std::to_string(given) + " has the sizes " + sizes.to_string());
  for (const std::int64_t size : sizes) shape.push_back(size == -1 ? length / known : size);
  for (int d = axis + 1; d < x.ndim(); ++d) shape.push_back(x.shape()[d]);
  return reshape(x, shape);
}

#define HEDDLE_PAD_LAYER(layer, mode)                                                             \
  layer::layer(const Dims& before, const Dims& after) : Layer(pad_call(#layer, before, after)) {} \
  NDArray layer::compute(const NDArray& x) {                                                      \
    return padded(#layer, x, list("before"), list("after"), PadMode::mode);                       \
  }
HEDDLE_PAD_LAYER(ZeroPad, constant)
HEDDLE_PAD_LAYER(ReflectionPad, reflect)
HEDDLE_PAD_LAYER(ReplicationPad, edge)
HEDDLE_PAD_LAYER(CircularPad, wrap)
#undef HEDDLE_PAD_LAYER

HEDDLE_LAYERS(shape) {
  table.family("Layers without weights");
  table.add<Identity>({.name = "Identity", .documentation = "Returns x itself: a layer that does nothing."});
  table.add<Unflatten>({.name = "Unflatten",
                        .documentation = "Splits an axis into axes of these sizes, of which one may be -1.",
                        .arguments = {{.name = "axis", .kind = ArgumentKind::integer},
                                      {.name = "sizes", .kind = ArgumentKind::integers, .least = -1}},
                        .input = "(...)",
                        .output = "(..., sizes..., ...)"});
  table.add<ZeroPad>(pad_spec(
      "ZeroPad", "Adds zeros around the axes behind the channels; `after` is as `before` if it is None."));
  table.add<ReflectionPad>(
      pad_spec("ReflectionPad", "As ZeroPad, with the array mirrored at its edge elements."));
  table.add<ReplicationPad>(pad_spec("ReplicationPad", "As ZeroPad, with the elements at the edge."));
  table.add<CircularPad>(pad_spec("CircularPad", "As ZeroPad, with the elements at the other end."));
}

}  // namespace heddle
