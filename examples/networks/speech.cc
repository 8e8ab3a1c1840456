#include "speech.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <random>
#include <stdexcept>

#include <heddle/heddle.h>

using namespace heddle;

namespace {

constexpr std::int64_t kRate = 8000, kFrame = 200, kHop = 80, kWaves = kFrame / 2 + 1;

double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

// (2 * kWaves, 1, kFrame): cosines and then sines, under a Hann window
NDArray fourier_waves() {
  std::vector<float> values;
  for (std::int64_t wave = 0; wave < 2 * kWaves; ++wave) {
    for (std::int64_t i = 0; i < kFrame; ++i) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(i) / kFrame;
      const double at = turn * static_cast<double>(wave % kWaves), window = 0.5 - 0.5 * std::cos(turn);
      values.push_back(static_cast<float>(window * (wave < kWaves ? std::cos(at) : std::sin(at))));
    }
  }
  return array(values, {2 * kWaves, 1, kFrame});
}

// (kBands, 2 * kWaves): triangles that overlap, over cosines and over sines
NDArray mel_bands() {
  std::vector<float> values;
  const double lowest = mel(60), step = (mel(kRate / 2) - lowest) / (kBands + 1);
  for (std::int64_t i = 0; i < kBands * 2 * kWaves; ++i) {
    const double hertz = static_cast<double>(i % kWaves * kRate) / kFrame;
    const double band = static_cast<double>(i / (2 * kWaves) + 1);
    values.push_back(static_cast<float>(std::max(0.0, 1 - std::abs((mel(hertz) - lowest) / step - band))));
  }
  return array(values, {kBands, 2 * kWaves});
}

// The part that is louder than 3% of the loudest sample.
std::vector<float> without_silence(const std::vector<float>& samples) {
  float peak = 0;
  for (float sample : samples) peak = std::max(peak, std::abs(sample));
  const auto is_loud = [peak](float sample) { return std::abs(sample) >= 0.03F * peak; };
  return {std::find_if(samples.begin(), samples.end(), is_loud),
          std::find_if(samples.rbegin(), samples.rend(), is_loud).base()};
}

}  // namespace

std::string Recordings::text(const NDArray& labels) const {
  std::string words;
  for (std::int64_t label : labels.to_vector<std::int64_t>()) {
    if (label > 0) words += (words.empty() ? "" : " ") + names.at(static_cast<std::size_t>(label) - 1);
  }
  return words;
}

Recordings read_recordings(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".wav") files.push_back(entry.path());
  }
  if (files.empty()) throw std::runtime_error(folder + ": there are no WAV files");
  std::sort(files.begin(), files.end());
  Recordings recordings;
  for (const auto& file : files) {
    const Audio audio = read_audio(file.string(), {.mono = true, .rate = kRate});
    recordings.names.push_back(file.stem().string());
    recordings.samples.push_back(without_silence(audio.samples.to_vector<float>()));
  }
  return recordings;
}

Utterances::Utterances(std::shared_ptr<const Recordings> recordings, const UtteranceOptions& options)
    : recordings_(std::move(recordings)), options_(options), fourier_(fourier_waves()), mel_(mel_bands()) {}

std::vector<Utterances::Word> Utterances::words_of(std::int64_t index) const {
  std::mt19937_64 bits(seed_of(index));
  const auto draw = [&](double low, double high) {  // the same with each standard library
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  };
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw(0, static_cast<double>(n))); };
  std::vector<Word> words(options_.least + below(options_.most - options_.least + 1));
  for (Word& word : words) {
    word.recording = below(recordings_->names.size());
    word.gap = draw(0, 0.3), word.speed = draw(0.85, 1.15), word.loudness = draw(0.5, 1);
  }
  return words;
}

Example Utterances::read(std::int64_t index) const {
  std::vector<float> samples(kRate / 10);
  std::vector<std::int64_t> labels;
  for (const Word& word : words_of(index)) {
    const std::vector<float>& sound = recordings_->samples[word.recording];
    samples.resize(samples.size() + static_cast<std::size_t>(word.gap * kRate));
    for (double at = 0; at + 1 < static_cast<double>(sound.size()); at += word.speed) {
      const auto left = static_cast<std::size_t>(at);
      const double value = std::lerp(sound[left], sound[left + 1], at - std::floor(at));
      samples.push_back(static_cast<float>(word.loudness * value));
    }
    labels.push_back(static_cast<std::int64_t>(word.recording) + 1);
  }
  samples.resize(samples.size() + kRate / 10);
  const Shape shape{1, 1, static_cast<std::int64_t>(samples.size())};
  Generator generator(seed_of(index));
  const NDArray noise = generator.uniform({}, 0.001, options_.noise) * generator.normal(shape);
  const NDArray waves =
      conv1d(array(samples, shape) + noise, fourier_, {}, {.stride = kHop}).reshape(2 * kWaves, -1);
  const NDArray energy = transpose(log(matmul(mel_, square(waves)) + 1e-6)) * 0.3;
  const NDArray features = energy - mean(energy, {0});
  return {features, array(labels, {static_cast<std::int64_t>(labels.size())})};
}
