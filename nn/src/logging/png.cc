#include "logging/png.h"

#include <zlib.h>

#include <heddle/error.h>

namespace heddle::nn_detail {

namespace {

void append_big_endian(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift);
}

void append_chunk(std::string& to, const std::string& type, const std::string& content) {
  append_big_endian(to, static_cast<std::uint32_t>(content.size()));
  const std::string body = type + content;
  to += body;
  append_big_endian(
      to, static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size())));
}

// Rows behind a byte that names their filter: 0, none.
std::string compressed_rows(const Picture& picture) {
  const auto line = static_cast<std::size_t>(picture.width * picture.channels);
  std::string rows;
  rows.reserve((line + 1) * static_cast<std::size_t>(picture.height));
  for (std::int64_t y = 0; y < picture.height; ++y) {
    rows += '\0';
    rows.append(reinterpret_cast<const char*>(picture.pixels.data()) + static_cast<std::size_t>(y) * line,
                line);
  }
  uLongf size = ::compressBound(rows.size());
  std::string packed(size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
                  rows.size(), Z_DEFAULT_COMPRESSION) != Z_OK)
    throw Error("a picture cannot be compressed");
  packed.resize(size);
  return packed;
}

}  // namespace

std::string to_png(const Picture& picture) {
  std::string head;
  append_big_endian(head, static_cast<std::uint32_t>(picture.width));
  append_big_endian(head, static_cast<std::uint32_t>(picture.height));
  constexpr char kGrey = 0, kColour = 2, kWithAlpha = 6;
  head += '\x08';  // bits of a channel
  head += picture.channels == 1 ? kGrey : picture.channels == 3 ? kColour : kWithAlpha;
  head += std::string(3, '\0');
  std::string png = "\x89PNG\r\n\x1a\n";
  append_chunk(png, "IHDR", head);
  append_chunk(png, "IDAT", compressed_rows(picture));
  append_chunk(png, "IEND", "");
  return png;
}

}  // namespace heddle::nn_detail
