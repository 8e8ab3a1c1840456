// Samples of sampling by a grid, and of poolings that tell where their maxima are.
#include <heddle/elementwise.h>
#include <heddle/pooling.h>
#include <heddle/resample.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(grid) {
  const NDArray x = small({1, 2, 3, 4}), grid = small({1, 2, 2, 2}) - 2;
  to.insert(
      to.end(),
      {{"grid_sample", {x, grid}, {}, [](In v) { return grid_sample(at(v, 0), at(v, 1)); }},
       {"grid_sample",
        {x, grid, "cubic", "reflection", true},
        {},
        [](In v) {
          return grid_sample(
              at(v, 0), at(v, 1),
              {.mode = Interpolation::cubic, .padding = GridPadding::reflection, .align_corners = true});
        }},
       {"grid_sample",
        {small({1, 1, 2, 2, 2}), small({1, 1, 2, 2, 3}) - 2},
        {{"mode", "nearest"}, {"padding_mode", "border"}},
        [](In v) {
          return grid_sample(at(v, 0), at(v, 1),
                             {.mode = Interpolation::nearest, .padding = GridPadding::border});
        }},
       {"affine_grid",
        {small({1, 2, 3}), Dims{1, 1, 2, 3}},
        {},
        [](In v) {
          return affine_grid(at(v, 0), {1, 1, 2, 3});
        }},
       {"affine_grid", {small({1, 3, 4}), Dims{1, 1, 2, 3, 2}, true}, {}, [](In v) {
          return affine_grid(at(v, 0), {1, 1, 2, 3, 2}, true);
        }}});
}

HEDDLE_SAMPLES(pooling_indices) {
  const NDArray line = small({1, 2, 6}), image = small({1, 1, 4, 4}), volume = small({1, 1, 2, 4, 2});
  const PoolOptions wide{.kernel = 3, .stride = 2, .padding = 1, .dilation = 1, .ceil_mode = true};
  to.insert(to.end(), {{"max_pool1d_with_indices",
                        {line},
                        {},
                        [](In v) { return listed(max_pool1d_with_indices(at(v, 0))); }},
                       {"max_pool1d_with_indices",
                        {line, 3, 2, 1, 1, true},
                        {},
                        [=](In v) { return listed(max_pool1d_with_indices(at(v, 0), wide)); }},
                       {"max_pool2d_with_indices",
                        {image},
                        {},
                        [](In v) { return listed(max_pool2d_with_indices(at(v, 0))); }},
                       {"max_pool2d_with_indices",
                        {image, 3, 2, 1, 1, true},
                        {},
                        [=](In v) { return listed(max_pool2d_with_indices(at(v, 0), wide)); }},
                       {"max_pool3d_with_indices",
                        {volume},
                        {},
                        [](In v) { return listed(max_pool3d_with_indices(at(v, 0))); }},
                       {"max_pool3d_with_indices", {volume, 3, 2, 1, 1, true}, {}, [=](In v) {
                          return listed(max_pool3d_with_indices(at(v, 0), wide));
                        }}});
}

HEDDLE_SAMPLES(unpooling) {
  const NDArray line = small({1, 1, 2}), at_line = numbers({1, 3}).view_as({1, 1, 2});
  const NDArray image = small({1, 1, 1, 2}), at_image = numbers({1, 6}).view_as({1, 1, 1, 2});
  const NDArray volume = small({1, 1, 1, 1, 2}), at_volume = numbers({1, 14}).view_as({1, 1, 1, 1, 2});
  const PoolOptions padded{.kernel = 3, .stride = 2, .padding = 1};
  to.insert(to.end(),
            {{"max_unpool1d", {line, at_line}, {}, [](In v) { return max_unpool1d(at(v, 0), at(v, 1)); }},
             {"max_unpool1d",
              {line, at_line, 3, 2, 1, 4},
              {},
              [=](In v) { return max_unpool1d(at(v, 0), at(v, 1), padded, 4); }},
             {"max_unpool2d", {image, at_image}, {}, [](In v) { return max_unpool2d(at(v, 0), at(v, 1)); }},
             {"max_unpool2d",
              {image, at_image, 3, 2, 1, Dims{2, 4}},
              {},
              [=](In v) {
                return max_unpool2d(at(v, 0), at(v, 1), padded, {2, 4});
              }},
             {"max_unpool3d", {volume, at_volume}, {}, [](In v) { return max_unpool3d(at(v, 0), at(v, 1)); }},
             {"max_unpool3d", {volume, at_volume, 3, 2, 1, Dims{2, 2, 4}}, {}, [=](In v) {
                return max_unpool3d(at(v, 0), at(v, 1), padded, {2, 2, 4});
              }}});
}

}  // namespace heddle::testing
