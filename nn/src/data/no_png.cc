// Replaces png.cc in a build without libpng.
#include "data/image_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {

NDArray decode_png(std::span<const std::byte>, const ImageOptions&, const std::string& title) {
  fail_without(title + ": a PNG image", "libpng-dev");
}

}  // namespace heddle::data_detail
