// Images that libpng and libjpeg have written, and damaged ones.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <jpeglib.h>
#include <png.h>
#include <sys/resource.h>
#include <zlib.h>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/ops.h>

#include "files.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Pixels (height, width, channels) that differ from each other.
std::vector<unsigned char> pixels(int height, int width, int channels, int seed = 0) {
  std::vector<unsigned char> result;
  for (int i = 0; i < height * width * channels; ++i)
    result.push_back(static_cast<unsigned char>((i * 37 + seed * 11) % 251));
  return result;
}

std::string png_of(const std::vector<unsigned char>& data, int height, int width, int color, int depth = 8,
                   bool interlaced = false) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp to, png_bytep from, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(from), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth, color,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[256];
    for (int i = 0; i < 256; ++i)
      palette[i] = {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), static_cast<png_byte>(i / 2)};
    png_set_PLTE(png, info, palette, 256);
  }
  png_write_info(png, info);
  const std::size_t step = png_get_rowbytes(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y)
    rows.push_back(const_cast<png_bytep>(data.data()) + static_cast<std::size_t>(y) * step);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::string jpeg_of(const std::vector<unsigned char>& data, int height, int width, int channels,
                    bool progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(data.data()) + y * width * channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string result(reinterpret_cast<char*>(memory), bytes);
  std::free(memory);
  return result;
}

std::span<const std::byte> span_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<std::uint8_t> decoded(const std::string& file, ImageOptions options = {}) {
  return decode_image(span_of(file), options).to_vector<std::uint8_t>();
}

// (height, width, channels) as (channels, height, width).
std::vector<std::uint8_t> planes(const std::vector<unsigned char>& data, int channels) {
  const std::size_t count = data.size() / static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> result;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
    for (std::size_t i = 0; i < count; ++i)
      result.push_back(data[i * static_cast<std::size_t>(channels) + c]);
  return result;
}

}  // namespace

TEST_CASE("PNG: colours, grey, palettes, transparency, 16 bits, interlaced") {
  const auto rgb = pixels(5, 7, 3), grey = pixels(5, 7, 1), rgba = pixels(5, 7, 4), deep = pixels(5, 7, 2);
  CHECK(decode_image(span_of(png_of(rgb, 5, 7, PNG_COLOR_TYPE_RGB))).shape() == Shape{3, 5, 7});
  CHECK(decoded(png_of(rgb, 5, 7, PNG_COLOR_TYPE_RGB)) == planes(rgb, 3));
  CHECK(decoded(png_of(rgb, 5, 7, PNG_COLOR_TYPE_RGB, 8, true)) == planes(rgb, 3));
  CHECK(decoded(png_of(grey, 5, 7, PNG_COLOR_TYPE_GRAY), {.channels = 1}) == grey);
  const auto three = decoded(png_of(grey, 5, 7, PNG_COLOR_TYPE_GRAY));
  for (std::size_t i = 0; i < 3 * 35; ++i) CHECK(three[i] == grey[i % 35]);
  const auto opaque = decoded(png_of(rgba, 5, 7, PNG_COLOR_TYPE_RGB_ALPHA));
  for (std::size_t i = 0; i < 35; ++i) CHECK(opaque[35 + i] == rgba[4 * i + 1]);
  const auto from_palette = decoded(png_of(grey, 5, 7, PNG_COLOR_TYPE_PALETTE));
  for (std::size_t i = 0; i < 35; ++i) CHECK(from_palette[35 + i] == 255 - grey[i]);
  const auto shallow = decoded(png_of(deep, 5, 7, PNG_COLOR_TYPE_GRAY, 16), {.channels = 1});
  for (std::size_t i = 0; i < 35; ++i)
    CHECK(std::abs(shallow[i] - (deep[2 * i] * 256 + deep[2 * i + 1]) / 257.0) <= 0.51);
  const auto mixed = decoded(png_of(rgb, 5, 7, PNG_COLOR_TYPE_RGB), {.channels = 1});
  for (std::size_t i = 0; i < 35; ++i)
    CHECK(std::abs(mixed[i] - (0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2])) < 1.5);
}

TEST_CASE("JPEG: colours, grey, progressive") {
  // Smooth, so that little is lost.
  std::vector<unsigned char> smooth;
  for (int y = 0; y < 24; ++y)
    for (int x = 0; x < 17; ++x)
      for (int c = 0; c < 3; ++c) smooth.push_back(static_cast<unsigned char>(5 * y + 4 * x + 20 * c));
  for (const bool progressive : {false, true}) {
    const auto got = decoded(jpeg_of(smooth, 24, 17, 3, progressive));
    const auto wanted = planes(smooth, 3);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) <= 6);
  }
  const std::vector<unsigned char> grey(smooth.begin(), smooth.begin() + 8 * 9);
  CHECK(decode_image(span_of(jpeg_of(grey, 8, 9, 1)), {.channels = 1}).shape() == Shape{1, 8, 9});
  const auto three = decoded(jpeg_of(grey, 8, 9, 1));
  CHECK(three.size() == 3 * 72);
  CHECK(three[5] == three[72 + 5]);
}

TEST_CASE("an image that is cut short or damaged at any byte is an error or an image, and nothing worse") {
  const auto rgb = pixels(9, 8, 3);
  for (const std::string& file :
       {png_of(rgb, 9, 8, PNG_COLOR_TYPE_RGB), png_of(rgb, 9, 8, PNG_COLOR_TYPE_RGB, 8, true),
        jpeg_of(rgb, 9, 8, 3), jpeg_of(rgb, 9, 8, 3, true)}) {
    const auto whole = decoded(file);
    int errors = 0;
    for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
      const std::string message = message_of([&] { CHECK(decoded(file.substr(0, bytes)) == whole); });
      errors += message != "no error";
      if (message != "no error") CHECK(message.substr(0, 12) == "image, byte ");
    }
    CHECK(errors >= static_cast<int>(file.size()) - 2);
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const char change : {'\x01', '\x80', '\xff'}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        message_of([&] { decoded(damaged, {.max_pixels = 1 << 20}); });
      }
    }
  }
}

TEST_CASE("a file that claims too many pixels is refused before memory is taken") {
  std::string bomb = png_of(pixels(2, 2, 3), 2, 2, PNG_COLOR_TYPE_RGB);
  bomb[16] = '\x7f';  // the width
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bomb.data()) + 12, 17);
  for (std::size_t i = 0; i < 4; ++i) bomb[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  CHECK(message_of([&] { decoded(bomb); }) ==
        "image claims 2 x 2130706434 pixels; at most 134217728 are decoded");
  CHECK(message_of([&] { decoded(jpeg_of(pixels(8, 8, 3), 8, 8, 3), {.max_pixels = 63}); }) ==
        "image claims 8 x 8 pixels; at most 63 are decoded");
}

TEST_CASE("image folders: classes, order, sizes, missing files") {
  const TemporaryDirectory folder;
  for (const char* name : {"cat", "ant/deep"}) std::filesystem::create_directories(folder.path / name);
  write_file(folder.file("cat/2.png"), png_of(pixels(4, 4, 3, 1), 4, 4, PNG_COLOR_TYPE_RGB));
  write_file(folder.file("cat/1.JPG"), jpeg_of(pixels(4, 4, 3, 2), 4, 4, 3));
  write_file(folder.file("cat/notes.txt"), "no image");
  write_file(folder.file("ant/deep/3.png"), png_of(pixels(6, 3, 1, 3), 6, 3, PNG_COLOR_TYPE_GRAY));
  const ImageFolder images(folder.path.string());
  CHECK(images.classes() == std::vector<std::string>{"ant", "cat"});
  CHECK(images.labels() == std::vector<std::int64_t>{0, 1, 1});
  CHECK(images.paths()[1] == folder.file("cat/1.JPG"));
  Loader padded(images, {.batch = 3});
  const auto batch = padded.next();
  CHECK(batch[0].shape() == Shape{3, 3, 6, 4});
  CHECK(batch[2].to_vector<std::int64_t>() == std::vector<std::int64_t>{6, 3, 4, 4, 4, 4});
  Loader resized(images, {.batch = 3, .augment = Augmentation{.resize = {5, 5}, .mean = {0.5}}});
  CHECK(resized.next()[0].shape() == Shape{3, 3, 5, 5});
  Loader fixed(images, {.batch = 3});
  const ImageFolder same(folder.path.string(), {.size = {4, 4}});
  Loader wrong(same, {.batch = 3});
  CHECK(message_of([&] { wrong.next()[0].wait(); }) == "Loader: epoch 0, batch 0, example 0: file '" +
                                                           folder.file("ant/deep/3.png") +
                                                           "' has 6 x 3 pixels; wanted 4 x 4");
  Loader skipping(same, {.batch = 3, .skip_bad = true});
  CHECK(skipping.next()[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 1});
  std::filesystem::remove(folder.path / "cat/2.png");
  CHECK(message_of([&] { images.read(2); }) ==
        "file '" + folder.file("cat/2.png") + "' cannot be opened: No such file or directory");
  CHECK(message_of([&] { ImageFolder(folder.file("cat")); }).find("has no folders with .png") !=
        std::string::npos);
  CHECK(message_of([&] { ImageFolder(folder.file("none")); }).find("cannot be read: No such file") !=
        std::string::npos);
  CHECK(message_of([&] { read_image(folder.file("cat/notes.txt")); }) ==
        "read_image: file '" + folder.file("cat/notes.txt") + "', byte 0: neither PNG nor JPEG");
}

TEST_CASE("texts and profiles in PNG files are left out, however much they unpack to") {
  const auto rgb = pixels(4, 4, 3);
  const std::string plain = png_of(rgb, 4, 4, PNG_COLOR_TYPE_RGB);
  std::string packed(100'000, '\0');
  const std::string text(7'000'000, 'a');
  uLongf size = packed.size();
  REQUIRE(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                    reinterpret_cast<const Bytef*>(text.data()), text.size(), 9) == Z_OK);
  const std::string content = std::string("zTXtk\0\0", 7) + packed.substr(0, size);
  const auto word = [](std::uint32_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16),
                       static_cast<char>(value >> 8), static_cast<char>(value)};
  };
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  const std::string chunk = word(static_cast<std::uint32_t>(content.size() - 4)) + content +
                            word(static_cast<std::uint32_t>(checksum));
  std::string bomb = plain.substr(0, 33);
  for (int i = 0; i < 100; ++i) bomb += chunk;
  bomb += plain.substr(33);
  // The kernel's count of the most memory so far, in KiB.
  const auto most = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most();
  CHECK(decoded(bomb) == planes(rgb, 3));
  CHECK(most() - before < 200'000);  // the texts have 700 MB
}

TEST_CASE("links that lead nowhere are no images of a folder") {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path / "a");
  write_file((folder.path / "a" / "1.png").string(), png_of(pixels(4, 4, 3), 4, 4, PNG_COLOR_TYPE_RGB));
  std::filesystem::create_symlink("loop", folder.path / "loop");
  std::filesystem::create_symlink("l.png", folder.path / "a" / "l.png");
  const ImageFolder images(folder.path.string());
  CHECK(images.classes() == std::vector<std::string>{"a"});
  CHECK(images.size() == 1);
}
