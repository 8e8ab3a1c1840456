// What layers that convolve share.
#pragma once

#include <string>
#include <variant>

#include <heddle/conv.h>

#include "layers/layer_table.h"

namespace heddle::nn_detail {

// The padding as a value of a layer's argument, and back.
inline OperatorValue padding_value(const Padding& padding) {
  return padding.same() ? OperatorValue(std::string("same")) : window_value(padding.sizes());
}
inline Padding padding_of(const OperatorValue& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  return std::get<Dims>(value);
}

inline ArgumentInfo convolution_padding(int axes) {
  ArgumentInfo argument = window_argument("padding", axes, 0);
  argument.choices = {"same", "valid"};
  return argument;
}

// By the number of axes, less one.
struct ConvImages {
  const char *name, *input, *output;
};
inline constexpr ConvImages kConvImages[] = {
    {"sequences", "(batch, in_channels, length)", "(batch, out_channels, length')"},
    {"images", "(batch, in_channels, height, width)", "(batch, out_channels, height', width')"},
    {"volumes", "(batch, in_channels, depth, height, width)",
     "(batch, out_channels, depth', height', width')"}};

}  // namespace heddle::nn_detail
