// Decoders of image files in memory. Each has a file for builds without its library.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <heddle/data/images.h>

namespace heddle::data_detail {

NDArray decode_png(std::span<const std::byte> bytes, const ImageOptions& options, const std::string& title);
NDArray decode_jpeg(std::span<const std::byte> bytes, const ImageOptions& options, const std::string& title);

// Refuses a size that the options do not allow.
void check_image_size(std::int64_t height, std::int64_t width, const ImageOptions& options,
                      const std::string& title);

// Writes a row of interleaved channels, `width` pixels, into row y of planes (channels, height, width).
void write_row(const unsigned char* row, int channels, std::int64_t y, std::int64_t height,
               std::int64_t width, std::uint8_t* planes);

}  // namespace heddle::data_detail
