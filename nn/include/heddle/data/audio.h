// Sound from files: WAV, FLAC, Ogg and what else libsndfile (libsndfile1-dev) reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/data/dataset.h>

namespace heddle {

struct AudioOptions {
  bool mono = false;                   // the mean of the channels: (frames) in place of (channels, frames)
  std::int64_t rate = 0;               // frames a second, else an error; 0: any
  std::int64_t max_samples = 1 << 28;  // a file that claims more is refused before memory is taken
};

struct Audio {
  NDArray samples;        // f32 (channels, frames), or (frames) with mono; integers are scaled to [-1, 1)
  std::int64_t rate = 0;  // frames a second
};

// Blocks. Throws Error naming the file, and where a WAV, AIFF or AU file ends too early.
Audio read_audio(const std::string& path, const AudioOptions& options = {}, Where where = Where::current());

// Examples {samples, label i64 ()} of a list of files. Numbers of frames differ; without mono, all have the
// channels of the first file.
class AudioFiles : public Dataset {
 public:
  AudioFiles(std::vector<std::string> paths, std::vector<std::int64_t> labels, AudioOptions options = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  std::vector<ExampleArray> arrays() const override;
  Example read(std::int64_t index) const override;

 private:
  std::vector<std::string> paths_;
  std::vector<std::int64_t> labels_;
  AudioOptions options_;
  std::int64_t channels_ = 1;
};

}  // namespace heddle
