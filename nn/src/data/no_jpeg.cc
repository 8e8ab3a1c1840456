// Replaces jpeg.cc in a build without libjpeg.
#include "data/image_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {

NDArray decode_jpeg(std::span<const std::byte>, const ImageOptions&, const std::string& title) {
  fail_without(title + ": a JPEG image", "libjpeg62-turbo-dev");
}

}  // namespace heddle::data_detail
