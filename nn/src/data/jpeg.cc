#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <jerror.h>
#include <jpeglib.h>
#include <vector>

#include "data/image_codec.h"
#include "data/input_file.h"

namespace heddle::data_detail {
namespace {

// More scans than encoders write make small files slow to decode.
constexpr int kMostScans = 200;

// libjpeg leaves its calls by longjmp: the functions that call setjmp have no object with a destructor.
struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf leave{};
  char message[JMSG_LENGTH_MAX] = "";
  const unsigned char* begin = nullptr;
  std::size_t size = 0, left = 0;  // bytes behind the one that was read last

  JpegReader() = default;
  ~JpegReader() {
    if (info.mem) jpeg_destroy_decompress(&info);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

[[noreturn]] void jpeg_fails(j_common_ptr info) {
  auto* const reader = static_cast<JpegReader*>(info->client_data);
  info->err->format_message(info, reader->message);
  if (reader->info.src) reader->left = reader->info.src->bytes_in_buffer;
  std::longjmp(reader->leave, 1);
}

// Most warnings are about bytes that no decoder minds. A file that is cut short is an error, not a grey image.
void on_jpeg_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) jpeg_fails(info);
}

void check_jpeg_scans(j_common_ptr info) {
  auto* const reader = static_cast<JpegReader*>(info->client_data);
  if (reader->info.input_scan_number <= kMostScans) return;
  reader->left = reader->info.src->bytes_in_buffer;
  std::strncpy(reader->message, "the image has more than 200 scans", sizeof reader->message - 1);
  std::longjmp(reader->leave, 1);
}

bool read_jpeg_head(JpegReader& reader, int channels) {
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = jpeg_fails;
  reader.errors.emit_message = on_jpeg_message;
  reader.info.client_data = &reader;
  if (setjmp(reader.leave)) return false;
  jpeg_create_decompress(&reader.info);
  reader.progress.progress_monitor = check_jpeg_scans;
  reader.info.progress = &reader.progress;
  jpeg_mem_src(&reader.info, reader.begin, static_cast<unsigned long>(reader.size));
  jpeg_read_header(&reader.info, TRUE);
  reader.info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

bool read_jpeg_rows(JpegReader& reader, int channels, unsigned char* row, std::uint8_t* planes) {
  if (setjmp(reader.leave)) return false;
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    const auto y = static_cast<std::int64_t>(reader.info.output_scanline);
    JSAMPROW rows[] = {row};
    jpeg_read_scanlines(&reader.info, rows, 1);
    write_row(row, channels, y, reader.info.output_height, reader.info.output_width, planes);
  }
  jpeg_finish_decompress(&reader.info);
  return true;
}

}  // namespace

NDArray decode_jpeg(std::span<const std::byte> bytes, const ImageOptions& options, const std::string& title) {
  JpegReader reader;
  reader.begin = reinterpret_cast<const unsigned char*>(bytes.data());
  reader.size = bytes.size();
  const auto fail = [&] {
    fail_at(title, static_cast<std::int64_t>(reader.size - std::min(reader.left, reader.size)),
            std::string("JPEG: ") + reader.message);
  };
  if (!read_jpeg_head(reader, options.channels)) fail();
  const std::int64_t height = reader.info.image_height, width = reader.info.image_width;
  check_image_size(height, width, options, title);
  std::vector<unsigned char> row(static_cast<std::size_t>(width * options.channels));
  const NDArray image({options.channels, height, width}, DType::u8);
  if (!read_jpeg_rows(reader, options.channels, row.data(), image.data<std::uint8_t>())) fail();
  return image;
}

}  // namespace heddle::data_detail
