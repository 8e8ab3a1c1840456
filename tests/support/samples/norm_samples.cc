// Samples of normalisations.
#include <heddle/norms.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(norm) {
  const NDArray x = small({2, 4, 3}), last = small({3}), channels = small({4});
  to.insert(to.end(),
            {{"layer_norm", {x}, {}, [](In v) { return layer_norm(at(v, 0)); }},
             {"layer_norm",
              {x, last, last, 1, 1e-3},
              {},
              [](In v) { return layer_norm(at(v, 0), at(v, 1), at(v, 2), 1, 1e-3); }},
             {"rms_norm", {x}, {}, [](In v) { return rms_norm(at(v, 0)); }},
             {"rms_norm", {x, last, 1, 1e-3}, {}, [](In v) { return rms_norm(at(v, 0), at(v, 1), 1, 1e-3); }},
             {"group_norm", {x, 2}, {}, [](In v) { return group_norm(at(v, 0), 2); }},
             {"group_norm",
              {x, 2, channels, channels, 1e-3},
              {},
              [](In v) { return group_norm(at(v, 0), 2, at(v, 2), at(v, 3), 1e-3); }},
             {"batch_norm", {x}, {}, [](In v) { return listed(batch_norm(at(v, 0))); }},
             {"batch_norm",
              {x, channels, channels, 1e-3},
              {},
              [](In v) { return listed(batch_norm(at(v, 0), at(v, 1), at(v, 2), 1e-3)); }},
             {"batch_norm_with",
              {x, channels, channels},
              {},
              [](In v) { return batch_norm_with(at(v, 0), at(v, 1), at(v, 2)); }},
             {"batch_norm_with", {x, channels, channels, channels, channels, 1e-3}, {}, [](In v) {
                return batch_norm_with(at(v, 0), at(v, 1), at(v, 2), at(v, 3), at(v, 4), 1e-3);
              }}});
}

}  // namespace heddle::testing
