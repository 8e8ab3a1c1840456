// Samples of embedding bags, and of embedding's options.
#include <heddle/embedding.h>

#include "samples/sample_values.h"

namespace heddle::testing {

HEDDLE_SAMPLES(embedding_bag) {
  const NDArray weight = small({4, 2}), flat = numbers({3, 1, 0, 3, 2}), offsets = numbers({0, 2, 2});
  const NDArray bags = array<std::int64_t>({3, 1, 0, 3, 2, 2}, {2, 3});
  to.insert(to.end(),
            {{"embedding_bag", {weight, bags}, {}, [](In v) { return embedding_bag(at(v, 0), at(v, 1)); }},
             {"embedding_bag",
              {weight, flat, offsets, "sum", small({5}), true, 3},
              {},
              [](In v) {
                return embedding_bag(at(v, 0), at(v, 1), at(v, 2),
                                     {.mode = BagMode::sum,
                                      .per_sample_weights = at(v, 4),
                                      .sparse_grad = true,
                                      .padding_index = 3});
              }},
             {"embedding_bag",
              {weight, flat, offsets, "max"},
              {},
              [](In v) { return embedding_bag(at(v, 0), at(v, 1), at(v, 2), {.mode = BagMode::max}); }},
             {"embedding", {weight, flat, true, -1}, {}, [](In v) {
                return embedding(at(v, 0), at(v, 1), {.sparse_grad = true, .padding_index = -1});
              }}});
}

}  // namespace heddle::testing
