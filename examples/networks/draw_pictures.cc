#include <algorithm>
#include <array>
#include <cstdint>
#include <zlib.h>

#include <heddle/heddle.h>

#include "../svg.h"
#include "support.h"

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string png_chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(sum));
}

// A PNG file of grey pixels (H, W), u8.
std::string png(const std::vector<std::uint8_t>& pixels, std::size_t height, std::size_t width) {
  std::string lines;  // each begins with the number of its filter: none
  for (std::size_t row = 0; row < height; ++row) {
    lines += '\0';
    lines.append(reinterpret_cast<const char*>(&pixels[row * width]), width);
  }
  uLongf size = compressBound(static_cast<uLong>(lines.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(lines.data()),
           static_cast<uLong>(lines.size()));
  packed.resize(size);
  const std::string header = big_endian(static_cast<std::uint32_t>(width)) +
                             big_endian(static_cast<std::uint32_t>(height)) +
                             std::string("\x08\x00\x00\x00\x00", 5);  // 8 bits, grey
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i) {
      word = word << 8 | (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[word >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace

void draw_pictures(const std::string& path, const heddle::NDArray& pictures, int columns,
                   const std::vector<std::string>& notes) {
  if (path.empty()) return;
  const heddle::NoGrad no_grad;
  const std::vector<float> values = pictures.astype(heddle::DType::f32).to_vector<float>();
  const auto count = static_cast<std::size_t>(pictures.size(0)), across = static_cast<std::size_t>(columns);
  const auto high = static_cast<std::size_t>(pictures.size(1)),
             wide = static_cast<std::size_t>(pictures.size(2));
  const std::size_t rows = (count + across - 1) / across;
  const std::size_t height = rows * (high + 2), width = across * (wide + 2);  // with a white border
  std::vector<std::uint8_t> pixels(height * width, 255);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t picture = i / (high * wide), y = i / wide % high, x = i % wide;
    const std::size_t row = picture / across * (high + 2) + y + 1;
    pixels[row * width + picture % across * (wide + 2) + x + 1] =
        static_cast<std::uint8_t>(255 * std::clamp(values[i], 0.0f, 1.0f) + 0.5f);
  }
  const double zoom = std::max(1.0, 560 / static_cast<double>(width));
  svg::Picture drawing(0, static_cast<double>(width), 0, static_cast<double>(height),
                       static_cast<int>(zoom * static_cast<double>(width)) + 64,
                       static_cast<int>(zoom * static_cast<double>(height)) + 64,
                       static_cast<int>(notes.size()));
  drawing.image(0, 0, static_cast<double>(width), static_cast<double>(height),
                "data:image/png;base64," + base64(png(pixels, height, width)));
  for (const std::string& note : notes) drawing.note(note);
  if (drawing.save(path)) std::printf("the picture is %s\n", path.c_str());
}
