// Samples of attention and of positions.
#include <heddle/attention.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(attention) {
  const NDArray query = small({1, 2, 3, 4}), key = small({1, 1, 2, 4}), value = small({1, 1, 2, 3}),
                mask = small({3, 2}), x = small({2, 3, 4});
  to.insert(
      to.end(),
      {{"attention", {query, key, value}, {}, [](In v) { return attention(at(v, 0), at(v, 1), at(v, 2)); }},
       {"attention",
        {query, key, value, mask, true, 0.25, 0.5, &a_generator()},
        {},
        [](In v) {
          return attention(at(v, 0), at(v, 1), at(v, 2), at(v, 3),
                           {.causal = true, .scale = 0.25, .dropout = 0.5, .generator = &a_generator()});
        }},
       {"rotary", {x}, {}, [](In v) { return rotary(at(v, 0)); }},
       {"rotary", {x, numbers({3, 1, 2}), 100.0, true}, {}, [](In v) {
          return rotary(at(v, 0), at(v, 1), {.base = 100, .interleaved = true});
        }}});
}

}  // namespace heddle::testing
