// Learns to write English, character by character: two LSTM layers predict each character of a text from those before it, and then go
// on with "The " by drawing characters from their own predictions. After Karpathy's char-rnn (2015).
#include <cstdio>

#include "support.h"
#include "text.h"

using namespace heddle;

namespace {

struct CharacterLstm : Module {
  Embedding embedding;
  Lstm lstm;
  Dense logits;

  CharacterLstm(std::int64_t alphabet, std::int64_t features, Generator& generator)
      : embedding(child("embedding", Embedding(alphabet, features / 4, {.stddev = 0.3}, generator))),
        lstm(child("lstm", Lstm(features / 4, features, {.layers = 2, .dropout = 0.2}, generator))),
        logits(child("logits", Dense(features, alphabet, {.init = Init::xavier}, generator))) {}

  // numbers (batch, length) -> (batch, length, alphabet)
  NDArray forward(const NDArray& numbers) override { return logits(lstm(embedding(numbers))); }

  // The logits (1, alphabet) of what follows numbers (1, any), which continue the text that `states` are of.
  NDArray next(const NDArray& numbers, RecurrentStates& states) {
    const RecurrentOutput out = lstm(embedding(numbers), states);
    states = {.h = out.h, .c = out.c};
    return logits(out.output(kAll, -1));
  }
};

bool run(const Options& options) {
  const Text text = read_text(options.data, options.quick ? 32 : 128, options.quick ? 60'000 : 0);
  manual_seed(options.seed);  // of dropout
  Generator initial(options.seed);
  CharacterLstm net(static_cast<std::int64_t>(text.alphabet.size()), options.quick ? 64 : 256, initial);

  const int epochs = options.epochs_or(8, 4);
  const std::int64_t batch = options.quick ? 8 : 32, steps = epochs * (text.train.size(0) / batch + 1);
  Trainer trainer(net.parameters(), {.optimizer = "adam",
                                     .schedule = cosine_schedule(options.quick ? 1e-2 : 3e-3, steps, 1e-5)});
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = {LossTerm(text_loss)};
  fitting.validation = {text.test, text.test_next};
  fitting.batch = batch;
  fitting.clip_norm = 1;
  fitting.capture = FitCapture::always;
  const History history = fit(net, trainer, {text.train, text.train_next}, fitting);

  net.train(false);
  const std::vector<std::string> samples = write_samples(text, options.quick ? 60 : 300, options.seed, [&] {
    return [&net, states = RecurrentStates()](const NDArray& numbers) mutable {
      return net.next(numbers, states);
    };
  });
  draw_curves(options.picture,
              {{"loss", history["loss"]}, {"loss of the held-out text", history["val_loss"]}}, samples);
  const FitValues result = evaluate(net, {text.test, text.test_next}, {.loss = {LossTerm(text_loss)}});
  return report_bits(text, bits(result.at("loss")), options.wanted_or(2.3, 3.4));
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv,
                     {.name = "text_lstm",
                      .text = "Learns to write English, character by character, with two LSTM layers.",
                      .quick_data = EXAMPLE_DATA "/text.txt",
                      .full_data = "text.txt",
                      .how_to_get = "examples/networks/data/collect.py text text.txt"},
                     run);
}
