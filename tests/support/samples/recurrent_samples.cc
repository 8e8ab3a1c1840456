// Samples of recurrent networks.
#include <heddle/recurrent.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(recurrent) {
  const NDArray x = small({2, 3, 2}), state = small({2, 2}), lengths = numbers({3, 1});
  const auto ih = [](std::int64_t gates) { return small({gates * 2, 2}); };
  const auto bias = [](std::int64_t gates) { return small({gates * 2}); };
  to.insert(to.end(),
            {{"rnn",
              {x, ih(1), ih(1)},
              {},
              [](In v) {
                return listed(rnn(at(v, 0), {at(v, 1), at(v, 2)}));
              }},
             {"rnn",
              {x, ih(1), ih(1), bias(1), bias(1), state, true, lengths, true, true},
              {},
              [](In v) {
                return listed(rnn(at(v, 0), {at(v, 1), at(v, 2), at(v, 3), at(v, 4)}, at(v, 5), true,
                                  {at(v, 7), true, true}));
              }},
             {"lstm",
              {x, ih(4), ih(4)},
              {},
              [](In v) {
                return listed(lstm(at(v, 0), {at(v, 1), at(v, 2)}));
              }},
             {"lstm",
              {x, ih(4), ih(4), bias(4), bias(4), state, state, lengths, true, true},
              {},
              [](In v) {
                return listed(lstm(at(v, 0), {at(v, 1), at(v, 2), at(v, 3), at(v, 4)}, at(v, 5), at(v, 6),
                                   {at(v, 7), true, true}));
              }},
             {"lstm",
              {x, ih(4), small({8, 1}), bias(4), bias(4), small({2, 1}), state, lengths, true, true,
               small({1, 2}), bias(3)},
              {},
              [](In v) {
                return listed(lstm(at(v, 0), {at(v, 1), at(v, 2), at(v, 3), at(v, 4), at(v, 10), at(v, 11)},
                                   at(v, 5), at(v, 6), {at(v, 7), true, true}));
              }},
             {"gru",
              {x, ih(3), ih(3)},
              {},
              [](In v) {
                return listed(gru(at(v, 0), {at(v, 1), at(v, 2)}));
              }},
             {"gru",
              {x, ih(3), ih(3), bias(3), bias(3), state, lengths, true, true},
              {},
              [](In v) {
                return listed(gru(at(v, 0), {at(v, 1), at(v, 2), at(v, 3), at(v, 4)}, at(v, 5),
                                  {at(v, 6), true, true}));
              }},
             {"gru", {x, ih(3), ih(3), bias(3), bias(3), state, lengths, true, true, false}, {}, [](In v) {
                return listed(gru(at(v, 0), {at(v, 1), at(v, 2), at(v, 3), at(v, 4)}, at(v, 5),
                                  {at(v, 6), true, true, false}));
              }}});
}

}  // namespace heddle::testing
