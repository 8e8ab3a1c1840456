// A language model of bytes: the next one at each step of a sequence.
#include "train/networks/network.h"

namespace heddle::bench {
namespace {

constexpr std::int64_t kVocabulary = 256, kUnits = 512, kSteps = 64, kBatch = 32;

struct LanguageModel : Module {
  Embedding embedding = child("embedding", Embedding(kVocabulary, kUnits));
  Lstm lstm = child("lstm", Lstm(kUnits, kUnits, {.layers = 2}));
  Dense output = child("output", Dense(kUnits, kVocabulary));

  // tokens (batch, steps), lengths (batch) or undefined -> logits (batch * steps, vocabulary)
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    const NDArray y = lstm(embedding(inputs[0]), RecurrentStates{.lengths = inputs[1]}).output;
    return {output(reshape(y, {kBatch * kSteps, kUnits}))};
  }
};

// Tokens, and those that follow, of which -1 are behind the end.
Arrays draw(Generator& random, bool with_lengths) {
  const NDArray tokens = random.integers({kBatch, kSteps}, 0, kVocabulary),
                targets = random.integers({kBatch, kSteps}, 0, kVocabulary);
  if (!with_lengths) return {tokens, reshape(targets, {kBatch * kSteps})};
  NDArray lengths = random.integers({kBatch}, 6, 33);
  lengths.slice(0, {0, 1}).assign(full({1}, kSteps, DType::i64));
  const NDArray inside =
      less(reshape(arange(kSteps, DType::i64), {1, kSteps}), reshape(lengths, {kBatch, 1}));
  return {tokens, reshape(where(inside, targets, -1), {kBatch * kSteps}), lengths};
}

}  // namespace

std::unique_ptr<Network> make_lstm(bool lengths) {
  const auto net = std::make_shared<LanguageModel>();
  return std::make_unique<TrainedModule>(
      net, TrainerOptions{.optimizer = "adam"},
      [net](const Arrays& batch) {
        const bool all = batch.size() < 3;
        const NDArray logits = net->run({batch[0], all ? NDArray() : batch[2]})[0];
        return all ? cross_entropy(logits, batch[1]) : cross_entropy_with(logits, batch[1]);
      },
      [lengths](Generator& random) { return draw(random, lengths); });
}

}  // namespace heddle::bench
