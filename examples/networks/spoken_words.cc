// Reads spoken words: a convolution and a bidirectional GRU turn the spectrogram of an utterance into a probability of each word, and of none,
// for every 30 ms. Nobody says where a word begins: the loss, CTC, sums over all places (Graves et al., ICML'06). The utterances are
// random draws of 2 to 6 recordings of digits and letters, with random gaps, speed, loudness and noise. Those held out are other draws
// of the same recordings by the same speaker; so the result says nothing about other voices.
#include <algorithm>
#include <array>
#include <cstdio>

#include <heddle/heddle.h>

#include "../svg.h"
#include "speech.h"
#include "support.h"

using namespace heddle;

namespace {

constexpr std::int64_t kStride = 3;  // frames of the spectrogram for a step of the network

NDArray steps_of(const NDArray& frames) { return floor_divide(frames + (kStride - 1), kStride); }

struct WordReader : Module {
  Conv1d conv;
  Gru gru;
  Dense logits;

  WordReader(std::int64_t words, std::int64_t features, std::int64_t layers, Generator& generator)
      : conv(child("conv",
                   Conv1d(kBands, features, 7, {.stride = kStride, .padding = 3, .relu = true}, generator))),
        gru(child("gru", Gru(features, features, {.layers = layers, .bidirectional = true}, generator))),
        logits(child("logits", Dense(2 * features, words + 1, {.init = Init::xavier}, generator))) {}

  // spectrograms (batch, frames, bands), frames (batch) -> the words that are most probable at each step (batch, steps), padded with
  // -1; logarithms of probabilities (steps, batch, 1 + words)
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    const NDArray steps = steps_of(inputs[1]);
    const NDArray seen = transpose(conv(transpose(inputs[0], {0, 2, 1})), {0, 2, 1});
    const NDArray heard = gru(seen, {.lengths = steps}).output;
    const NDArray log_probs = log_softmax(transpose(logits(heard), {1, 0, 2}));
    return {ctc_greedy_decode(log_probs.detach(), steps)[0], log_probs};
  }
};

// Labels: words, the numbers of frames and of words.
NDArray loss_of(const std::vector<NDArray>& outputs, const std::vector<NDArray>& labels) {
  return ctc_loss(outputs[1], labels[0], steps_of(labels[1]), labels[2]);
}

// Errors per word of the words that are most probable at each step, and of those that a beam search finds.
std::array<double, 2> word_errors(WordReader& net, Loader& loader) {
  const NoGrad no_grad;
  net.train(false);
  EditDistance greedy, beam;
  loader.start(0);
  for (auto batch = loader.next(); !batch.empty(); batch = loader.next()) {
    const std::vector<NDArray> out = net.run({batch[0], batch[1]});
    greedy.update(out[0], batch[2]);
    beam.update(ctc_beam_search(out[1], steps_of(batch[1]), 8)[0], batch[2]);
  }
  return {greedy.result().item().real(), beam.result().item().real()};
}

// Draws a spectrogram, a square for each step and band, and above it the probabilities of words.
void draw(const std::string& path, const NDArray& spectrogram, const NDArray& probabilities,
          const Recordings& recordings, const std::string& note) {
  if (path.empty()) return;
  const std::vector<float> energy = spectrogram.to_vector<float>(), p = probabilities.to_vector<float>();
  const auto steps = static_cast<std::size_t>(probabilities.size(0));
  const std::size_t bands = kBands, classes = p.size() / steps, frames = energy.size() / bands;
  svg::Picture picture(0, static_cast<double>(steps), 0, 60, 760, 400, 1);
  for (std::size_t i = 0; i < steps * bands; ++i) {
    const std::size_t frame = std::min(i / bands * kStride, frames - 1), band = i % bands;
    const int level = std::clamp(static_cast<int>(10 * energy[frame * bands + band]), 0, 13);
    const std::string grey = "#" + std::string(3, "fedcba98765432"[level]);
    if (level > 0) picture.cell(static_cast<double>(i / bands), static_cast<double>(band), 1, grey);
  }
  const std::vector<std::string> colors = {"#4878a8", "#d1602c", "#4a9b5b", "#8a5ba8", "#b89b2c"};
  for (std::size_t label = 1; label < classes; ++label) {
    std::vector<double> x, y;
    std::size_t best = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const double value = p[step * classes + label];
      x.push_back(static_cast<double>(step) + 0.5), y.push_back(36 + 20 * value);
      if (y[step] > y[best]) best = step;
    }
    if (y[best] < 40) continue;
    picture.line(x, y, colors[label % colors.size()], 1.5);
    picture.text(x[best], y[best] + 1, recordings.names[label - 1], colors[label % colors.size()]);
  }
  picture.note(note);
  if (picture.save(path)) std::printf("the picture is %s\n", path.c_str());
}

bool run(const Options& options) {
  const auto recordings = std::make_shared<const Recordings>(read_recordings(options.data));
  const std::size_t least = options.quick ? 1 : 2, most = options.quick ? 3 : 6;
  const Utterances learn(recordings, {options.quick ? 400 : 4000, 2 * options.seed, least, most});
  const Utterances test(recordings, {options.quick ? 60 : 500, 2 * options.seed + 1, least, most});
  const Utterances noisy(recordings, {test.size(), 2 * options.seed + 1, least, most, 0.1});
  LoaderOptions loading{.batch = options.quick ? 8 : 16, .shuffle = true, .seed = options.seed};
  loading.bucket_by_length = 8, loading.pad = {0, -1};
  loading.arrays = {0, 2, 1, 2, 3};  // inputs: spectrograms, frames; labels: words, frames, numbers of words
  const LoaderOptions testing{.pad = loading.pad, .arrays = loading.arrays};
  Loader train_loader(learn, loading), test_loader(test, testing), noisy_loader(noisy, testing);
  std::printf("%zu words; %lld utterances, %lld more are held out\n", recordings->names.size(),
              static_cast<long long>(learn.size()), static_cast<long long>(test.size()));

  Generator initial(options.seed);
  WordReader net(static_cast<std::int64_t>(recordings->names.size()), options.quick ? 48 : 96,
                 options.quick ? 1 : 2, initial);
  const int epochs = options.epochs_or(6, 4);
  Trainer trainer(net.parameters(), {.optimizer = "adam",
                                     .schedule = cosine_schedule(options.quick ? 1e-2 : 3e-3,
                                                                 epochs * train_loader.size(), 1e-5)});
  FitOptions fitting = fit_options(options, epochs);
  fitting.loss = loss_of;
  fitting.labels = 3;
  fitting.metrics = {FitMetric(std::make_shared<EditDistance>(), 0, "word_errors")};
  fitting.validation = test_loader;
  fitting.clip_norm = 5;
  fit(net, trainer, train_loader, fitting);

  const auto [greedy, beam] = word_errors(net, test_loader);
  const double in_noise = word_errors(net, noisy_loader)[0];
  const NoGrad no_grad;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Example example = test.read(i);
    const NDArray frames = full({1}, example[0].size(0), DType::i64);
    const std::vector<NDArray> out = net.run({expand_dims(example[0], 0), frames});
    const std::string note = recordings->text(example[1]) + " -> " + recordings->text(out[0][0]);
    std::printf("  %s\n", note.c_str());
    if (i == 0) draw(options.picture, example[0], exp(out[1]), *recordings, note);
  }
  std::printf("held out: word error rate %.3f, by beam search %.3f, in more noise %.3f\n", greedy, beam,
              in_noise);
  const double wanted = options.wanted_or(0.05, 0.5);
  std::printf("wanted: at most %.3f\n", wanted);
  return greedy <= wanted;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv,
                     {.name = "spoken_words",
                      .text = "Reads digits and letters in recordings of several words, by CTC.",
                      .quick_data = EXAMPLE_DATA "/words",
                      .full_data = "words",
                      .how_to_get = "examples/networks/data/collect.py words words"},
                     run);
}
