// Learns to write English, character by character, as text_lstm does, with a small GPT: transformer blocks in which each character looks at
// those before it. When the network writes, each block keeps keys and values of all characters so far, and computes the last one alone.
#include <cstdio>

#include "support.h"
#include "text.h"

using namespace heddle;

namespace {

struct CharacterTransformer : Module {
  Embedding embedding;
  std::vector<TransformerBlock> blocks;
  LayerNorm norm;
  Dense logits;

  CharacterTransformer(std::int64_t alphabet, std::int64_t features, int count, Generator& generator)
      : embedding(child("embedding", Embedding(alphabet, features, {.stddev = 0.3}, generator))),
        norm(child("norm", LayerNorm(features))),
        logits(child("logits", Dense(features, alphabet, {.init = Init::xavier}, generator))) {
    const TransformerBlockOptions options{.causal = true, .rotary = true, .dropout = 0.1};
    for (int i = 0; i < count; ++i) {
      blocks.push_back(
          child("block" + std::to_string(i), TransformerBlock(features, features / 32, options, generator)));
    }
  }

  // numbers (batch, length) -> (batch, length, alphabet)
  NDArray forward(const NDArray& numbers) override {
    NDArray x = embedding(numbers);
    for (TransformerBlock& block : blocks) x = block(x);
    return logits(norm(x));
  }

  // The logits (1, alphabet) of what follows numbers (1, any), which continue the text that is in the caches of the blocks.
  NDArray next(const NDArray& numbers, std::vector<AttentionCache>& caches) {
    NDArray x = embedding(numbers);
    for (std::size_t i = 0; i < blocks.size(); ++i) x = blocks[i].decode(x, caches[i]);
    return logits(norm(x(kAll, -1)));
  }
};

bool run(const Options& options) {
  const std::int64_t length = options.quick ? 32 : 192;
  const Text text = read_text(options.data, length, options.quick ? 60'000 : 0);
  manual_seed(options.seed);  // of dropout
  Generator initial(options.seed);
  CharacterTransformer net(static_cast<std::int64_t>(text.alphabet.size()), options.quick ? 64 : 128,
                           options.quick ? 2 : 4, initial);

  const int epochs = options.epochs_or(6, 2);
  const std::int64_t batch = options.quick ? 8 : 16, steps = epochs * (text.train.size(0) / batch + 1);
  Trainer trainer(net.parameters(),
                  {.optimizer = "adamw",
                   .params = {{"beta2", 0.99}, {"weight_decay", 0.05}},
                   .schedule = warm_up(50, cosine_schedule(options.quick ? 5e-3 : 2e-3, steps, 1e-5)),
                   .groups = {{.max_axes = 1, .weight_decay = 0}}});
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = {LossTerm(text_loss)};
  fitting.validation = {text.test, text.test_next};
  fitting.batch = batch;
  fitting.clip_norm = 1;
  fitting.capture = FitCapture::always;
  const History history = fit(net, trainer, {text.train, text.train_next}, fitting);

  net.train(false);
  const int count =
      static_cast<int>(length) - 4;  // positions beyond those of the training would be new to it
  const std::vector<std::string> samples = write_samples(text, count, options.seed, [&] {
    return [&net, caches = std::vector<AttentionCache>(net.blocks.size())](const NDArray& numbers) mutable {
      return net.next(numbers, caches);
    };
  });
  draw_curves(options.picture,
              {{"loss", history["loss"]}, {"loss of the held-out text", history["val_loss"]}}, samples);
  const FitValues result = evaluate(net, {text.test, text.test_next}, {.loss = {LossTerm(text_loss)}});
  return report_bits(text, bits(result.at("loss")), options.wanted_or(2.45, 3.6));
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv,
                     {.name = "text_transformer",
                      .text = "Learns to write English, character by character, with transformer blocks.",
                      .quick_data = EXAMPLE_DATA "/text.txt",
                      .full_data = "text.txt",
                      .how_to_get = "examples/networks/data/collect.py text text.txt"},
                     run);
}
