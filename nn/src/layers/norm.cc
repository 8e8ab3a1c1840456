#include <algorithm>
#include <optional>
#include <string>

#include <heddle/autograd.h>
#include <heddle/autograd/recompute.h>
#include <heddle/elementwise.h>
#include <heddle/layers/norm.h>
#include <heddle/norms.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

LayerNorm::LayerNorm(std::int64_t features, const NormOptions& options, Where where)
    : Layer(call_of("LayerNorm",
                    {inferred_value(features), options.epsilon, options.weight, options.bias, options.device},
                    where)) {}

NDArray LayerNorm::compute(const NDArray& x) {
  return layer_norm(x, array("weight"), array("bias"), 1, real("epsilon"));
}

RmsNorm::RmsNorm(std::int64_t features, const RmsNormOptions& options, Where where)
    : Layer(call_of("RmsNorm", {inferred_value(features), options.epsilon, options.device}, where)) {}

NDArray RmsNorm::compute(const NDArray& x) { return rms_norm(x, array("weight"), 1, real("epsilon")); }

GroupNorm::GroupNorm(const LayerCall& call) : Layer(call) {
  const std::optional<std::int64_t> channels = optional_integer("channels");
  if (channels && *channels % integer("groups") != 0)
    throw InvalidArgument("GroupNorm: channels is " + std::to_string(*channels) +
                          "; want a multiple of groups, " + std::to_string(integer("groups")));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options, Where where)
    : GroupNorm(call_of(
          "GroupNorm",
          {groups, inferred_value(channels), options.epsilon, options.weight, options.bias, options.device},
          where)) {}

NDArray GroupNorm::compute(const NDArray& x) {
  return group_norm(x, integer("groups"), array("weight"), array("bias"), real("epsilon"));
}

InstanceNorm::InstanceNorm(std::int64_t channels, const NormOptions& options, Where where)
    : Layer(call_of("InstanceNorm",
                    {inferred_value(channels), options.epsilon, options.weight, options.bias, options.device},
                    where)) {}

NDArray InstanceNorm::compute(const NDArray& x) {
  return group_norm(x, x.shape()[1], array("weight"), array("bias"), real("epsilon"));
}

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& options, Where where)
    : Layer(call_of("BatchNorm",
                    {inferred_value(channels), options.epsilon, options.momentum, options.weight,
                     options.bias, options.device},
                    where)) {}

NDArray BatchNorm::compute(const NDArray& given) {
  // Statistics of halves are f32, as the running ones.
  if (is_half(given.dtype())) return compute(given.astype(DType::f32)).astype(given.dtype());
  const NDArray& x = given;
  const NDArray weight = array("weight"), bias = array("bias");
  const NDArray running_mean = array("running_mean"), running_var = array("running_var");
  const double epsilon = real("epsilon");
  if (!training())
    return batch_norm_with(x, running_mean.astype(x.dtype()), running_var.astype(x.dtype()), weight, bias,
                           epsilon);
  const std::int64_t count = x.size() / std::max<std::int64_t>(1, x.shape()[1]);
  if (count < 2) refuse_input(x, info().input + " with two elements or more of each channel, in training");
  auto [y, mean, variance] = batch_norm(x, weight, bias, epsilon);
  const NoGrad no_grad;
  const double share = real("momentum"),
               unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  if (is_recomputing()) return y;  // the first run has changed them
  running_mean.assign(running_mean * (1 - share) + mean * share);
  running_var.assign(running_var * (1 - share) + variance * (share * unbiased));
  return y;
}

HEDDLE_LAYERS(norm) {
  table.family("Normalisation");
  const auto arguments = [](const char* size, double epsilon) {
    return std::vector<ArgumentInfo>{inferred_size(size), real_argument("epsilon", epsilon)};
  };
  const auto with = [](std::vector<ArgumentInfo> first, std::initializer_list<ArgumentInfo> rest) {
    first.insert(first.end(), rest);
    return first;
  };
  const std::initializer_list<ArgumentInfo> affine{switch_argument("weight", true),
                                                   switch_argument("bias", true), device_argument()};
  const std::initializer_list<ArgumentInfo> plain{switch_argument("weight", false),
                                                  switch_argument("bias", false), device_argument()};
  const std::vector<ArraySpec> of_features{ones_array("weight", "(features)", "weight"),
                                           zeros_array("bias", "(features)", "bias")};
  const std::vector<ArraySpec> of_channels{ones_array("weight", "(channels)", "weight"),
                                           zeros_array("bias", "(channels)", "bias")};
  const char *const rows = "(batch..., features)", *const images = "(batch, channels, ...)";
  table.add<LayerNorm>(
      {.name = "LayerNorm",
       .documentation = "Moves each row to mean 0 and scales it to variance 1, then weights it.",
       .arguments = with(arguments("features", 1e-5), affine),
       .arrays = of_features,
       .input = rows,
       .output = rows});
  table.add<RmsNorm>({.name = "RmsNorm",
                      .documentation = "Scales each row to a mean square of 1, then weights it.",
                      .arguments = with(arguments("features", 1e-6), {device_argument()}),
                      .arrays = {ones_array("weight", "(features)")},
                      .input = rows,
                      .output = rows});
  table.add<GroupNorm>({.name = "GroupNorm",
                        .documentation = "Normalises each group of channels of each element of the batch.",
                        .arguments = with(with({size_argument("groups")},
                                               {inferred_size("channels"), real_argument("epsilon", 1e-5)}),
                                          affine),
                        .arrays = of_channels,
                        .input = images,
                        .output = images});
  table.add<InstanceNorm>({.name = "InstanceNorm",
                           .documentation = "Normalises each channel of each element of the batch.",
                           .arguments = with(arguments("channels", 1e-5), plain),
                           .arrays = of_channels,
                           .input = images,
                           .output = images});
  std::vector<ArraySpec> of_batch = of_channels;
  of_batch.push_back(buffer_of(zeros_array("running_mean", "(channels)")));
  of_batch.push_back(buffer_of(ones_array("running_var", "(channels)")));
  table.add<BatchNorm>(
      {.name = "BatchNorm",
       .documentation = "Normalises each channel over the batch, in inference by running statistics.",
       .arguments = with(with(arguments("channels", 1e-5), {real_argument("momentum", 0.1)}), affine),
       .arrays = of_batch,
       .input = images,
       .output = images});
}

}  // namespace heddle
