// A language model of bytes: the next one at each place of a sequence.
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kVocabulary = 256, kFeatures = 256, kLength = 128, kBatch = 16, kBlocks = 4;

struct Transformer : Module {
  NDArray places = parameter("places", default_generator().normal({kLength, kFeatures}, 0, 0.02));
  Embedding tokens = child("tokens", Embedding(kVocabulary, kFeatures, {.stddev = 0.02}));
  std::shared_ptr<Sequential> blocks = child("blocks", std::make_shared<Sequential>());
  LayerNorm norm = child("norm", LayerNorm(kFeatures));
  Dense output = child("output", Dense(kFeatures, kVocabulary, {.init = Init::xavier}));

  Transformer() {
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks->add(TransformerBlock(kFeatures, 8, {.causal = true}));
  }
  NDArray forward(const NDArray& x) override { return output(norm((*blocks)(tokens(x) + places))); }
};

}  // namespace

std::unique_ptr<Network> make_transformer() {
  const auto net = std::make_shared<Transformer>();
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.optimizer = "adam"},
      [net](const Arrays& batch) {
        return cross_entropy(reshape((*net)(batch[0]), {kBatch * kLength, kVocabulary}), batch[1]);
      },
      [](Generator& random) {
        return Arrays{random.integers({kBatch, kLength}, 0, kVocabulary),
                      random.integers({kBatch * kLength}, 0, kVocabulary)};
      });
}

}  // namespace heddle::bench
