#include <csetjmp>
#include <cstring>
#include <new>
#include <png.h>
#include <vector>

#include "data/image_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {
namespace {

// libpng leaves its calls by longjmp: the functions that call setjmp have no object with a destructor.
struct PngReader {
  const std::byte* bytes;
  std::size_t size, at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[200] = "";
  png_uint_32 width = 0, height = 0;
  bool interlaced = false;

  PngReader(const std::byte* begin, std::size_t count) : bytes(begin), size(count) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

[[noreturn]] void png_fails(png_structp png, png_const_charp message) {
  auto* const reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof reader->message - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep target, size_t count) {
  auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->size - reader->at) png_error(png, "the file is cut short");
  std::memcpy(target, reader->bytes + reader->at, count);
  reader->at += count;
}

// Reads the head, and asks for 8 bits a channel.
bool read_png_head(PngReader& reader, int channels) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, png_fails, ignore_png_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) throw std::bad_alloc();
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, read_png_bytes);
  png_set_user_limits(reader.png, 0x7fffffff, 0x7fffffff);
  // Texts and profiles, which are packed, would be unpacked into memory, however many there are.
  static constexpr png_byte kUnused[] = "tEXt\0zTXt\0iTXt\0iCCP\0eXIf\0sPLT";
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, kUnused, sizeof kUnused / 5);
  png_read_info(reader.png, reader.info);
  const int color = png_get_color_type(reader.png, reader.info);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_scale_16(reader.png);
  png_set_strip_alpha(reader.png);
  if (channels == 3 && !(color & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(reader.png);
  if (channels == 1 && (color & PNG_COLOR_MASK_COLOR)) png_set_rgb_to_gray_fixed(reader.png, 1, 29900, 58700);
  reader.interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  return true;
}

// `rows` has room for a row, or for all rows of an interlaced image.
bool read_png_rows(PngReader& reader, int channels, unsigned char* rows, std::uint8_t* planes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  if (reader.interlaced) png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);  // takes memory for rows
  const std::size_t step = std::size_t{reader.width} * static_cast<std::size_t>(channels);
  if (png_get_rowbytes(reader.png, reader.info) != step)
    png_error(reader.png, "rows of another size than wanted");
  for (int pass = 0; reader.interlaced && pass < 7; ++pass) {
    for (png_uint_32 y = 0; y < reader.height; ++y) png_read_row(reader.png, rows + y * step, nullptr);
  }
  for (png_uint_32 y = 0; y < reader.height; ++y) {
    unsigned char* const row = reader.interlaced ? rows + y * step : rows;
    if (!reader.interlaced) png_read_row(reader.png, row, nullptr);
    write_row(row, channels, y, reader.height, reader.width, planes);
  }
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

NDArray decode_png(std::span<const std::byte> bytes, const ImageOptions& options, const std::string& title) {
  PngReader reader(bytes.data(), bytes.size());
  const auto fail = [&] {
    fail_at(title, static_cast<std::int64_t>(reader.at), std::string("PNG: ") + reader.message);
  };
  if (!read_png_head(reader, options.channels)) fail();
  check_image_size(reader.height, reader.width, options, title);
  const std::size_t step = std::size_t{reader.width} * static_cast<std::size_t>(options.channels);
  std::vector<unsigned char> rows(step * (reader.interlaced ? reader.height : 1));
  const NDArray image(
      {options.channels, static_cast<std::int64_t>(reader.height), static_cast<std::int64_t>(reader.width)},
      DType::u8);
  if (!read_png_rows(reader, options.channels, rows.data(), image.data<std::uint8_t>())) fail();
  return image;
}

}  // namespace heddle::data_detail
