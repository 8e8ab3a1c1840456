// Samples of connectionist temporal classification.
#include <heddle/ctc.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(ctc) {
  const NDArray x = small({5, 2, 4}), steps = numbers({5, 4}), lengths = numbers({2, 1});
  const NDArray targets = array<std::int64_t>({1, 3, 2, 2}, {2, 2}), one = small({4, 3});
  to.insert(to.end(),
            {{"ctc_loss",
              {x, targets, steps, lengths},
              {},
              [](In v) { return ctc_loss(at(v, 0), at(v, 1), at(v, 2), at(v, 3)); }},
             {"ctc_loss",
              {x, numbers({1, 2, 3}), steps, lengths, 0, std::string("none"), true},
              {},
              [](In v) {
                return ctc_loss(at(v, 0), at(v, 1), at(v, 2), at(v, 3), {0, Reduction::none, true});
              }},
             {"ctc_loss",
              {x, numbers({1, 2, 0}), steps, lengths, 3, std::string("sum"), true},
              {},
              [](In v) {
                return ctc_loss(at(v, 0), at(v, 1), at(v, 2), at(v, 3), {3, Reduction::sum, true});
              }},
             {"ctc_greedy_decode", {x}, {}, [](In v) { return listed(ctc_greedy_decode(at(v, 0))); }},
             {"ctc_greedy_decode",
              {one, numbers({3}), 1},
              {},
              [](In v) { return listed(ctc_greedy_decode(at(v, 0), at(v, 1), 1)); }},
             {"ctc_beam_search", {x}, {}, [](In v) { return listed(ctc_beam_search(at(v, 0))); }},
             {"ctc_beam_search", {one, numbers({3}), 2, 1}, {}, [](In v) {
                return listed(ctc_beam_search(at(v, 0), at(v, 1), 2, 1));
              }}});
}

}  // namespace heddle::testing
