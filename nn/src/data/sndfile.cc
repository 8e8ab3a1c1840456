#include <algorithm>
#include <sndfile.h>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "data/audio_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {
namespace {

std::int64_t number_at(const unsigned char* bytes, bool big_endian) {
  std::int64_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | bytes[big_endian ? i : 3 - i];
  return number;
}

constexpr std::int64_t kAnySize = 0xffffffff;  // what programs write that do not know it yet

// libsndfile takes a WAV, AIFF or AU file that is cut short for a shorter one.
void check_sizes(const OpenFile& file, const std::string& title) {
  unsigned char head[12] = {};
  const auto read = [&](std::int64_t at) { return ::pread(file.handle(), head, sizeof head, at) >= 8; };
  const auto check = [&](std::int64_t end) {
    if (end > file.size)
      fail_at(title, file.size, "the file ends here; its head says " + std::to_string(end) + " bytes");
  };
  if (!read(0)) throw Error(title + " ends after " + std::to_string(file.size) + " bytes");
  const std::string_view kind(reinterpret_cast<const char*>(head), 4);
  if (kind == ".snd") {
    const std::int64_t bytes = number_at(head + 8, true);
    if (file.size >= 12 && bytes != kAnySize) check(number_at(head + 4, true) + bytes);
  }
  if (kind != "RIFF" && kind != "FORM") return;
  const bool big_endian = kind == "FORM";
  std::int64_t bytes = number_at(head + 4, big_endian);
  if (bytes != kAnySize) check(8 + bytes);
  const std::int64_t end = bytes == kAnySize ? file.size : 8 + bytes;
  for (std::int64_t at = 12; at + 8 <= end && read(at); at += 8 + bytes + (bytes & 1)) {
    bytes = number_at(head + 4, big_endian);
    if (bytes == kAnySize) return;
    check(at + 8 + bytes);
  }
}

// A sound file that is open.
struct SoundFile {
  std::string title;
  OpenFile opened;
  SF_INFO info{};
  SNDFILE* file = nullptr;

  explicit SoundFile(const std::string& path) : title(title_of(path)), opened(path) {
    check_sizes(opened, title);
    file = sf_open_fd(opened.handle(), SFM_READ, &info, SF_FALSE);
    if (!file) throw Error(title + ": " + sf_strerror(nullptr));
  }
  ~SoundFile() {
    if (file) sf_close(file);
  }
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;
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
