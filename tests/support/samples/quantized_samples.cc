// Samples of products of 8-bit integers.
#include <heddle/quantized/products.h>

#include "samples/sample_values.h"

namespace heddle::testing {

namespace {

// From the sample's values 1 to 5, of which the last one may be missing.
QuantizedWeights weights_in(In v) {
  return {at(v, 1), at(v, 2), at(v, 3), at(v, 4), v.size() > 5 ? at(v, 5) : NDArray()};
}

}  // namespace

HEDDLE_SAMPLES(quantized) {
  const NDArray scale = small({1}), zero = small({1}, DType::i32), scales = small({6}), bias = small({6});
  const NDArray rows = small({5, 4}), matrix = small({6, 4}, DType::i8), line = small({2, 4, 7}),
                taps = small({6, 4, 3}, DType::i8), image = small({1, 2, 5, 4}),
                stamp = small({6, 2, 2, 2}, DType::i8), volume = small({1, 2, 3, 4, 3}),
                cube = small({6, 2, 2, 2, 2}, DType::i8);
  to.insert(to.end(),
            {{"quantized_linear",
              {rows, matrix, scales, scale, zero},
              {},
              [](In v) { return quantized_linear(at(v, 0), weights_in(v)); }},
             {"quantized_linear",
              {rows, matrix, scales, scale, zero, bias, true},
              {},
              [](In v) { return quantized_linear(at(v, 0), weights_in(v), {.relu = true}); }},
             {"quantized_conv1d",
              {line, taps, scales, scale, zero},
              {},
              [](In v) { return quantized_conv1d(at(v, 0), weights_in(v)); }},
             {"quantized_conv1d",
              {line, small({6, 2, 3}, DType::i8), scales, scale, zero, bias, 2, 1, 2, 2, true},
              {},
              [](In v) {
                return quantized_conv1d(at(v, 0), weights_in(v), {2, 1, 2, 2, true});
              }},
             {"quantized_conv2d",
              {image, stamp, scales, scale, zero},
              {},
              [](In v) { return quantized_conv2d(at(v, 0), weights_in(v)); }},
             {"quantized_conv2d",
              {image, small({6, 1, 2, 2}, DType::i8), scales, scale, zero, bias, Dims{2, 1}, Dims{1, 0},
               Dims{1, 2}, 2, true},
              {},
              [](In v) {
                return quantized_conv2d(at(v, 0), weights_in(v), {{2, 1}, {1, 0}, {1, 2}, 2, true});
              }},
             {"quantized_conv3d",
              {volume, cube, scales, scale, zero},
              {},
              [](In v) { return quantized_conv3d(at(v, 0), weights_in(v)); }},
             {"quantized_conv3d",
              {volume, small({6, 1, 2, 1, 2}, DType::i8), scales, scale, zero, bias, Dims{2, 1, 1},
               Dims{0, 1, 1}, 2, 2, true},
              {},
              [](In v) {
                return quantized_conv3d(at(v, 0), weights_in(v), {{2, 1, 1}, {0, 1, 1}, 2, 2, true});
              }}});
}

}  // namespace heddle::testing
