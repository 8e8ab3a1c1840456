// Samples of convolutions besides conv2d.
#include <heddle/conv.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(conv) {
  const NDArray line = small({2, 4, 7}), taps = small({6, 2, 3}), image = small({1, 2, 3, 4}),
                stamp = small({2, 3, 2, 2});
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
       {"conv_transpose2d", {image, stamp, small({6}), Dims{2, 3}, 1, Dims{1, 0}, 1, 2}, {}, [](In v) {
          return conv_transpose2d(at(v, 0), at(v, 1), at(v, 2), {{2, 3}, {1, 1}, {1, 0}, {1, 1}, 2});
        }}});
}

}  // namespace heddle::testing
