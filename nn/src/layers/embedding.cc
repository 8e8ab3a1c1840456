#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/embedding.h>
#include <heddle/layers/embedding.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kBagModes[] = {"sum", "mean", "max"};

OperatorValue padding_value(std::optional<std::int64_t> index) {
  return index ? OperatorValue(*index) : OperatorValue();
}

// The row of the padding index gets zeros as its initial values.
void clear_padding(const NDArray& weight, std::optional<std::int64_t> index, const std::string& layer) {
  if (!index) return;
  const std::int64_t rows = weight.shape()[0], row = *index < 0 ? *index + rows : *index;
  if (row < 0 || row >= rows)
    throw InvalidArgument(layer + ": padding_index is " + std::to_string(*index) + " for " +
                          std::to_string(rows) + " rows; want " + std::to_string(-rows) + " to " +
                          std::to_string(rows - 1));
  weight.detach().slice(0, {row, row + 1}).fill(0);
}

ArgumentInfo padding_argument() {
  return {.name = "padding_index", .kind = ArgumentKind::integer, .default_value = OperatorValue()};
}

void check_row_numbers(const Layer& layer, const NDArray& indices) {
  if (!is_floating(indices.dtype()) && indices.dtype() != DType::boolean) return;
  throw InvalidArgument(layer.to_string() + ": the input is " + name_of(indices.dtype()) + " " +
                        indices.shape().to_string() + ", wanted is integers");
}

}  // namespace

Embedding::Embedding(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  clear_padding(array("weight"), optional_integer("padding_index"), info().name);
}

Embedding::Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options,
                     Generator& generator, Where where)
    : Embedding(call_of("Embedding",
                        {rows, features, options.stddev, options.sparse_grad,
                         padding_value(options.padding_index), options.device, &generator},
                        where)) {}

NDArray Embedding::compute(const NDArray& indices) {
  check_row_numbers(*this, indices);
  return embedding(
      array("weight"), indices,
      {.sparse_grad = boolean("sparse_grad"), .padding_index = optional_integer("padding_index")});
}

EmbeddingBag::EmbeddingBag(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  if (boolean("sparse_grad") && text("mode") == kBagModes[static_cast<std::uint8_t>(BagMode::max)])
    refuse_call(call, "sparse_grad with mode max; want sum or mean");
  clear_padding(array("weight"), optional_integer("padding_index"), info().name);
}

EmbeddingBag::EmbeddingBag(std::int64_t rows, std::int64_t features, EmbeddingBagLayerOptions options,
                           Generator& generator, Where where)
    : EmbeddingBag(call_of(
          "EmbeddingBag",
          {rows, features, std::string(kBagModes[static_cast<std::uint8_t>(options.mode)]), options.stddev,
           options.sparse_grad, padding_value(options.padding_index), options.device, &generator},
          where)) {}

std::vector<NDArray> EmbeddingBag::compute_all(std::span<const NDArray> inputs) {
  check_row_numbers(*this, inputs[0]);
  std::uint8_t mode = 0;
  while (text("mode") != kBagModes[mode]) ++mode;
  return {embedding_bag(array("weight"), inputs[0], inputs[1],
                        {.mode = static_cast<BagMode>(mode),
                         .per_sample_weights = inputs[2],
                         .sparse_grad = boolean("sparse_grad"),
                         .padding_index = optional_integer("padding_index")})};
}

HEDDLE_LAYERS(embedding) {
  table.family("Layers with weights");
  table.add<Embedding>({.name = "Embedding",
                        .documentation = "Indices -> rows of the weight.",
                        .arguments = {size_argument("rows"), size_argument("features"),
                                      real_argument("stddev", 1.0), switch_argument("sparse_grad", false),
                                      padding_argument(), device_argument(), generator_argument()},
                        .arrays = {normal_array("weight", "(rows, features)")},
                        .input = "(indices...)",
                        .output = "(indices..., features)"});
  ArgumentInfo mode{.name = "mode", .kind = ArgumentKind::text, .default_value = std::string("mean")};
  mode.choices.assign(std::begin(kBagModes), std::end(kBagModes));
  table.add<EmbeddingBag>(
      {.name = "EmbeddingBag",
       .documentation =
           "Bags of indices, (bags, length) or in one axis with offsets -> the sum, mean or maximum of "
           "the rows of each.",
       .arguments = {size_argument("rows"), size_argument("features"), mode, real_argument("stddev", 1.0),
                     switch_argument("sparse_grad", false), padding_argument(), device_argument(),
                     generator_argument()},
       .arrays = {normal_array("weight", "(rows, features)")},
       .input = "(indices...)",
       .output = "(bags, features)",
       .more_inputs = {{"offsets", "(bags)", "The position at which each bag begins in the indices."},
                       {"per_sample_weights", "(indices...)", "A factor for each index, for mode sum."}}});
}

}  // namespace heddle
