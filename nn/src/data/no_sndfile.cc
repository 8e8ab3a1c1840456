// Replaces sndfile.cc in a build without libsndfile.
#include "data/audio_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {

Audio decode_audio(const std::string& path, const AudioOptions&) {
  fail_without(title_of(path), "libsndfile1-dev");
}
std::int64_t audio_channels(const std::string& path) { fail_without(title_of(path), "libsndfile1-dev"); }

}  // namespace heddle::data_detail
