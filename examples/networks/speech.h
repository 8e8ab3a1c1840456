// Utterances: recordings of single words that are strung together at random, as mel spectrograms: the logarithm of the energy in bands that
// are as wide as the ear's, for frames of 25 ms that begin 10 ms apart. Each band has the mean 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/data.h>

constexpr std::int64_t kBands = 32;  // of a spectrogram

struct Recordings {
  std::vector<std::string> names;           // words, in the order of their files
  std::vector<std::vector<float>> samples;  // without the silence around the word
  // The words of labels from 1 on; others stand for none. Waits.
  std::string text(const heddle::NDArray& labels) const;
};

// The WAV files of a folder, 8000 samples a second. Throws std::runtime_error if there are none.
Recordings read_recordings(const std::string& folder);

struct UtteranceOptions {
  std::int64_t size;
  std::uint64_t seed;       // utterance i follows from it and i alone
  std::size_t least, most;  // words
  double noise = 0.02;      // the largest deviation of white noise; recordings have about 0.1
};

// Examples {spectrogram f32 (frames, kBands), words i64 (words)}; word i of the recordings is i + 1. Words have gaps
// of 0 to 0.3 s between them, 0.85 to 1.15 of the recording's speed, and half of its loudness to all.
class Utterances : public heddle::Dataset {
 public:
  Utterances(std::shared_ptr<const Recordings> recordings, const UtteranceOptions& options);
  std::int64_t size() const override { return options_.size; }
  std::vector<heddle::ExampleArray> arrays() const override {
    using heddle::DType, heddle::kInferred;
    return {{DType::f32, {kInferred, kBands}}, {DType::i64, {kInferred}}};
  }
  heddle::Example read(std::int64_t index) const override;
  std::int64_t length(std::int64_t index) const override {
    return static_cast<std::int64_t>(words_of(index).size());
  }

 private:
  struct Word {
    std::size_t recording;
    double gap, speed, loudness;
  };
  std::uint64_t seed_of(std::int64_t index) const {
    return options_.seed * 1'000'003 + static_cast<std::uint64_t>(index);
  }
  std::vector<Word> words_of(std::int64_t index) const;
  std::shared_ptr<const Recordings> recordings_;
  UtteranceOptions options_;
  heddle::NDArray fourier_, mel_;
};
