// A recommender: rows of tables and numbers of each sample, and whether it was chosen.
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kTables = 8, kRows = 100000, kFeatures = 32, kNumbers = 13, kBatch = 1024;

struct Recommender : Module {
  std::vector<Embedding> tables;
  std::shared_ptr<Sequential> dense;

  Recommender() {
    for (std::int64_t i = 0; i < kTables; ++i)
      tables.push_back(child("table" + std::to_string(i),
                             Embedding(kRows, kFeatures, {.stddev = 0.05, .sparse_grad = true})));
    dense = child("dense",
                  std::make_shared<Sequential>(Dense(kTables * kFeatures + kNumbers, 128, {.relu = true}),
                                               Dense(128, 64, {.relu = true}), Dense(64, 1)));
  }
  // indices (tables, batch), numbers (batch, kNumbers) -> logits (batch, 1)
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    std::vector<NDArray> parts;
    for (std::int64_t i = 0; i < kTables; ++i)
      parts.push_back(tables[static_cast<std::size_t>(i)](inputs[0][i]));
    parts.push_back(inputs[1]);
    return {(*dense)(concat(parts, 1))};
  }
};

}  // namespace

std::unique_ptr<Network> make_recommender() {
  const auto net = std::make_shared<Recommender>();
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.params = {{"lr", 0.05}}},
      [net](const Arrays& batch) {
        return bce_with_logits(net->run({batch[0], batch[1]})[0], batch[2]);
      },
      [](Generator& random) {
        return Arrays{random.integers({kTables, kBatch}, 0, kRows), random.normal({kBatch, kNumbers}),
                      random.bernoulli({kBatch, 1}, 0.3)};
      });
}

}  // namespace heddle::bench
