#include <algorithm>
#include <fstream>
#include <sndfile.h>

#include "data/audio_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {
namespace {

// A sound file that is open.
struct SoundFile {
  std::string title;
  SF_INFO info{};
  SNDFILE* file = nullptr;

  explicit SoundFile(const std::string& path) : title(title_of(path)) {
    check_riff(path);
    file = sf_open(path.c_str(), SFM_READ, &info);
    if (!file) throw Error(title + ": " + sf_strerror(nullptr));
  }
  ~SoundFile() {
    if (file) sf_close(file);
  }
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  // libsndfile takes a WAV file that is cut short for a shorter one.
  void check_riff(const std::string& path) const {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) throw Error(title + " cannot be opened");
    const std::int64_t size = in.tellg();
    in.seekg(0);
    unsigned char head[8] = {};
    if (!in.read(reinterpret_cast<char*>(head), sizeof head))
      throw Error(title + " ends after " + std::to_string(size) + " bytes");
    if (head[0] != 'R' || head[1] != 'I' || head[2] != 'F' || head[3] != 'F') return;
    const std::int64_t claimed =
        8 + (std::int64_t{head[4]} | head[5] << 8 | head[6] << 16 | std::int64_t{head[7]} << 24);
    if (claimed > size && claimed != 8 + std::int64_t{0xffffffff})
      fail_at(title, size, "the file ends here; its head says " + std::to_string(claimed) + " bytes");
  }
};

// Interleaved channels become rows, or their mean.
void spread_frames(const std::vector<float>& frames, std::int64_t count, std::int64_t channels, bool mono,
                   std::int64_t at, std::int64_t length, float* target) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const frame = frames.data() + i * channels;
    if (!mono) {
      for (std::int64_t c = 0; c < channels; ++c) target[c * length + at + i] = frame[c];
      continue;
    }
    float sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += frame[c];
    target[at + i] = sum / static_cast<float>(channels);
  }
}

}  // namespace

std::int64_t audio_channels(const std::string& path) { return SoundFile(path).info.channels; }

Audio decode_audio(const std::string& path, const AudioOptions& options) {
  const SoundFile sound(path);
  const std::int64_t frames = sound.info.frames, channels = sound.info.channels;
  if (channels < 1 || frames < 0 || frames > options.max_samples / channels) {
    throw Error(sound.title + " claims " + std::to_string(frames) + " frames of " + std::to_string(channels) +
                " channels; at most " + std::to_string(options.max_samples) + " samples are read");
  }
  if (options.rate != 0 && sound.info.samplerate != options.rate) {
    throw Error(sound.title + " has " + std::to_string(sound.info.samplerate) + " frames a second; wanted " +
                std::to_string(options.rate));
  }
  const Audio audio{NDArray(options.mono ? Shape{frames} : Shape{channels, frames}, DType::f32),
                    sound.info.samplerate};
  float* const target = frames > 0 ? audio.samples.data<float>() : nullptr;
  constexpr std::int64_t kFrames = 4096;
  std::vector<float> buffer(static_cast<std::size_t>(kFrames * channels));
  for (std::int64_t at = 0; at < frames;) {
    const std::int64_t got = sf_readf_float(sound.file, buffer.data(), std::min(kFrames, frames - at));
    if (got <= 0) {
      throw Error(sound.title + " ends after frame " + std::to_string(at) + " of " + std::to_string(frames) +
                  ": " + sf_strerror(sound.file));
    }
    spread_frames(buffer, got, channels, options.mono, at, frames, target);
    at += got;
  }
  return audio;
}

}  // namespace heddle::data_detail
