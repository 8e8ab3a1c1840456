// Decoders of sound. There is a file for builds without libsndfile.
#pragma once

#include <heddle/data/audio.h>

namespace heddle::data_detail {

Audio decode_audio(const std::string& path, const AudioOptions& options);
std::int64_t audio_channels(const std::string& path);

}  // namespace heddle::data_detail
