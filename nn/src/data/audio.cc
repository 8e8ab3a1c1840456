#include <heddle/array_error.h>
#include <heddle/data/audio.h>

#include "data/audio_codec.h"

namespace heddle {

Audio read_audio(const std::string& path, const AudioOptions& options, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("read_audio", [&] { return data_detail::decode_audio(path, options); });
}

AudioFiles::AudioFiles(std::vector<std::string> paths, std::vector<std::int64_t> labels, AudioOptions options)
    : paths_(std::move(paths)), labels_(std::move(labels)), options_(options) {
  if (labels_.size() != paths_.size()) {
    throw InvalidArgument("AudioFiles: " + std::to_string(labels_.size()) + " labels for " +
                          std::to_string(paths_.size()) + " files");
  }
  if (!options_.mono && !paths_.empty()) channels_ = data_detail::audio_channels(paths_[0]);
}

std::vector<ExampleArray> AudioFiles::arrays() const {
  return {{DType::f32, options_.mono ? Shape{kInferred} : Shape{channels_, kInferred}}, {DType::i64, {}}};
}

Example AudioFiles::read(std::int64_t index) const {
  const std::string& path = paths_.at(static_cast<std::size_t>(index));
  const NDArray label(Shape{}, DType::i64);
  *label.data<std::int64_t>() = labels_[static_cast<std::size_t>(index)];
  return {data_detail::decode_audio(path, options_).samples, label};
}

}  // namespace heddle
