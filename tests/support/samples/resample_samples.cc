// Samples of resampling, and of dropout and what is like it.
#include <heddle/dropout.h>
#include <heddle/resample.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(resample) {
  const NDArray x = small({1, 4, 3, 2});
  to.insert(
      to.end(),
      {{"interpolate", {x}, {}, [](In v) { return interpolate(at(v, 0), {.scale = {2}}); }},
       {"interpolate", {x}, {{"size", 4}}, [](In v) { return interpolate(at(v, 0), {.size = 4}); }},
       {"interpolate",
        {x, Dims{5, 3}, OperatorValue(), "linear", true},
        {},
        [](In v) {
          return interpolate(at(v, 0),
                             {.size = {5, 3}, .mode = Interpolation::linear, .align_corners = true});
        }},
       {"interpolate",
        {x, OperatorValue(), 1.5, "nearest-exact"},
        {},
        [](In v) { return interpolate(at(v, 0), {.scale = {1.5}, .mode = Interpolation::nearest_exact}); }},
       {"pixel_shuffle", {x, 2}, {}, [](In v) { return pixel_shuffle(at(v, 0), 2); }},
       {"pixel_unshuffle", {small({2, 4, 2}), 2}, {}, [](In v) { return pixel_unshuffle(at(v, 0), 2); }}});
}

HEDDLE_SAMPLES(dropouts) {
  const NDArray x = small({3, 4, 2});
  Generator* own = &a_generator();
  to.insert(to.end(), {{"channel_dropout",
                        {x},
                        {},
                        [](In v) { return channel_dropout(at(v, 0), 0.5, default_generator(), true); }},
                       {"channel_dropout",
                        {x, 0.25, true, own},
                        {},
                        [=](In v) { return channel_dropout(at(v, 0), 0.25, *own, true); }},
                       {"channel_dropout",
                        {x, 0.25, false},
                        {},
                        [=](In v) { return channel_dropout(at(v, 0), 0.25, *own, false); }},
                       {"alpha_dropout",
                        {x},
                        {},
                        [](In v) { return alpha_dropout(at(v, 0), 0.5, default_generator(), true); }},
                       {"alpha_dropout",
                        {x, 0.25, true, own},
                        {},
                        [=](In v) { return alpha_dropout(at(v, 0), 0.25, *own, true); }},
                       {"alpha_dropout",
                        {x, 0.25, false},
                        {},
                        [=](In v) { return alpha_dropout(at(v, 0), 0.25, *own, false); }},
                       {"feature_alpha_dropout",
                        {x},
                        {},
                        [](In v) { return feature_alpha_dropout(at(v, 0), 0.5, default_generator(), true); }},
                       {"feature_alpha_dropout",
                        {x, 0.25, true, own},
                        {},
                        [=](In v) { return feature_alpha_dropout(at(v, 0), 0.25, *own, true); }},
                       {"feature_alpha_dropout",
                        {x, 0.25, false},
                        {},
                        [=](In v) { return feature_alpha_dropout(at(v, 0), 0.25, *own, false); }},
                       {"gaussian_dropout",
                        {x},
                        {},
                        [](In v) { return gaussian_dropout(at(v, 0), 0.5, default_generator(), true); }},
                       {"gaussian_dropout",
                        {x, 0.25, true, own},
                        {},
                        [=](In v) { return gaussian_dropout(at(v, 0), 0.25, *own, true); }},
                       {"gaussian_dropout",
                        {x, 0.25, false},
                        {},
                        [=](In v) { return gaussian_dropout(at(v, 0), 0.25, *own, false); }},
                       {"gaussian_noise",
                        {x},
                        {},
                        [](In v) { return gaussian_noise(at(v, 0), 1, default_generator(), true); }},
                       {"gaussian_noise",
                        {x, 0.25, true, own},
                        {},
                        [=](In v) { return gaussian_noise(at(v, 0), 0.25, *own, true); }},
                       {"gaussian_noise", {x, 0.25, false}, {}, [=](In v) {
                          return gaussian_noise(at(v, 0), 0.25, *own, false);
                        }}});
}

}  // namespace heddle::testing
