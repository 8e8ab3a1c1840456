// Samples of convolutions and poolings; more of conv2d, max_pool2d and avg_pool2d are in operator_samples.cc.
#include <heddle/conv.h>
#include <heddle/pooling.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(conv) {
  const NDArray line = small({2, 4, 7}), taps = small({6, 2, 3}), image = small({1, 2, 3, 4}),
                stamp = small({2, 3, 2, 2}), volume = small({1, 2, 3, 4, 3}), cube = small({2, 2, 2, 2, 2});
  to.insert(
      to.end(),
      {{"conv1d", {line, small({5, 4, 3})}, {}, [](In v) { return conv1d(at(v, 0), at(v, 1)); }},
       {"conv1d",
        {line, taps, small({6}), 2, 1, 2, 2, true},
        {},
        [](In v) {
          return conv1d(at(v, 0), at(v, 1), at(v, 2), {2, 1, 2, 2, true});
        }},
       {"conv_transpose2d", {image, stamp}, {}, [](In v) { return conv_transpose2d(at(v, 0), at(v, 1)); }},
       {"conv_transpose2d",
        {image, stamp, small({6}), Dims{2, 3}, 1, Dims{1, 0}, 1, 2},
        {},
        [](In v) {
          return conv_transpose2d(at(v, 0), at(v, 1), at(v, 2), {{2, 3}, {1, 1}, {1, 0}, {1, 1}, 2});
        }},
       {"conv1d",
        {line, taps, small({6}), 1, "same", 2, 2},
        {},
        [](In v) {
          return conv1d(at(v, 0), at(v, 1), at(v, 2), {1, "same", 2, 2});
        }},
       {"conv3d", {volume, cube}, {}, [](In v) { return conv3d(at(v, 0), at(v, 1)); }},
       {"conv3d",
        {volume, small({2, 1, 2, 1, 2}), small({2}), Dims{2, 1, 1}, Dims{0, 1, 1}, 1, 2, true},
        {},
        [](In v) {
          return conv3d(at(v, 0), at(v, 1), at(v, 2), {{2, 1, 1}, {0, 1, 1}, 1, 2, true});
        }},
       {"conv_transpose1d",
        {line, small({4, 2, 3}), small({4}), 2, 1, 1, 1, 2},
        {},
        [](In v) {
          return conv_transpose1d(at(v, 0), at(v, 1), at(v, 2), {2, 1, 1, 1, 2});
        }},
       {"conv_transpose3d", {volume, cube}, {}, [](In v) { return conv_transpose3d(at(v, 0), at(v, 1)); }},
       {"max_pool1d",
        {line, 3, 2, 1, 1, true},
        {},
        [](In v) {
          return max_pool1d(at(v, 0), {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true});
        }},
       {"max_pool2d",
        {image, 2, 1, 0, Dims{1, 2}},
        {},
        [](In v) {
          return max_pool2d(at(v, 0), {.stride = 1, .dilation = {1, 2}});
        }},
       {"max_pool3d", {volume}, {}, [](In v) { return max_pool3d(at(v, 0)); }},
       {"avg_pool1d",
        {line, 3, 2, 1, false, true},
        {},
        [](In v) {
          return avg_pool1d(at(v, 0), {3, 2, 1, false, 1, true});
        }},
       {"avg_pool3d", {volume}, {}, [](In v) { return avg_pool3d(at(v, 0)); }},
       {"conv_transpose1d",
        {line, small({4, 2, 3})},
        {},
        [](In v) { return conv_transpose1d(at(v, 0), at(v, 1)); }},
       {"conv_transpose3d",
        {volume, cube, small({4}), 2, 1, Dims{1, 0, 1}, 1, 2},
        {},
        [](In v) {
          return conv_transpose3d(at(v, 0), at(v, 1), at(v, 2), {2, 1, {1, 0, 1}, 1, 2});
        }},
       {"max_pool1d", {line}, {}, [](In v) { return max_pool1d(at(v, 0)); }},
       {"avg_pool1d", {line}, {}, [](In v) { return avg_pool1d(at(v, 0)); }},
       {"max_pool2d",
        {image, 2, 1, 1, Dims{1, 2}, true},
        {},
        [](In v) {
          return max_pool2d(at(v, 0), {.stride = 1, .padding = 1, .dilation = {1, 2}, .ceil_mode = true});
        }},
       {"avg_pool2d",
        {image, 3, Dims{1, 2}, 1, false, true},
        {},
        [](In v) {
          return avg_pool2d(at(v, 0), {3, {1, 2}, 1, false, 1, true});
        }},
       {"max_pool3d",
        {volume, Dims{2, 2, 3}, 2, Dims{1, 0, 1}, 1, true},
        {},
        [](In v) {
          return max_pool3d(at(v, 0),
                            {.kernel = {2, 2, 3}, .stride = 2, .padding = {1, 0, 1}, .ceil_mode = true});
        }},
       {"avg_pool3d",
        {volume, 3, Dims{1, 2, 1}, 1, false, true},
        {},
        [](In v) {
          return avg_pool3d(at(v, 0), {3, {1, 2, 1}, 1, false, 1, true});
        }},
       {"adaptive_max_pool1d", {line, 3}, {}, [](In v) { return adaptive_max_pool1d(at(v, 0), 3); }},
       {"adaptive_max_pool2d",
        {image, Dims{2, 3}},
        {},
        [](In v) {
          return adaptive_max_pool2d(at(v, 0), {2, 3});
        }},
       {"adaptive_max_pool3d", {volume, 2}, {}, [](In v) { return adaptive_max_pool3d(at(v, 0), 2); }},
       {"adaptive_avg_pool1d", {line, 3}, {}, [](In v) { return adaptive_avg_pool1d(at(v, 0), 3); }},
       {"adaptive_avg_pool2d",
        {image, Dims{2, 3}},
        {},
        [](In v) {
          return adaptive_avg_pool2d(at(v, 0), {2, 3});
        }},
       {"adaptive_avg_pool3d", {volume, 2}, {}, [](In v) { return adaptive_avg_pool3d(at(v, 0), 2); }}});
}

}  // namespace heddle::testing
