#include <algorithm>
#include <bit>
#include <cstring>
#include <zlib.h>

#include <heddle/array_error.h>
#include <heddle/data/tables.h>

#include "data/input_file.h"

namespace heddle {
namespace {

using namespace data_detail;

// Deflate makes files at most so many times smaller.
constexpr std::int64_t kMostInflation = 1032;

DType idx_dtype(int code, const std::string& title) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0b:
      return DType::i16;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
  }
  fail_at(title, 2, "no IDX file: the code of its elements is " + std::to_string(code));
}

// The bytes of a file, unpacked where it is compressed.
class IdxSource {
 public:
  explicit IdxSource(const std::string& path)
      : title_(title_of(path)), packed_(read_bytes(path)), gzip_(is_gzip()) {
    if (!gzip_) return;
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    left_ = packed_.size();
  }
  ~IdxSource() {
    if (gzip_) inflateEnd(&stream_);
  }
  IdxSource(const IdxSource&) = delete;
  IdxSource& operator=(const IdxSource&) = delete;

  const std::string& title() const { return title_; }
  // How many bytes there can be at most.
  std::int64_t most() const {
    const auto size = static_cast<std::int64_t>(packed_.size());
    return gzip_ ? size * kMostInflation : size;
  }

  void read(void* target, std::size_t bytes) {
    const std::size_t got = gzip_ ? inflate_into(target, bytes) : copy_into(target, bytes);
    at_ += static_cast<std::int64_t>(got);
    if (got == bytes) return;
    fail_at(title_, at_,
            "the data" + std::string(gzip_ ? ", unpacked," : "") + " end here, and " +
                std::to_string(bytes - got) + " more bytes are wanted");
  }

  void expect_end() {
    std::byte more;
    const std::size_t got = gzip_ ? inflate_into(&more, 1) : copy_into(&more, 1);
    if (got > 0) fail_at(title_, at_, "there is more than the head says");
    if (gzip_ && !ended_) fail_at(title_, at_, "the compressed data are cut short");
  }

 private:
  bool is_gzip() const {
    return packed_.size() >= 2 && packed_[0] == std::byte{0x1f} && packed_[1] == std::byte{0x8b};
  }
  std::size_t copy_into(void* target, std::size_t bytes) {
    const std::size_t got = std::min(bytes, packed_.size() - static_cast<std::size_t>(at_));
    if (got > 0) std::memcpy(target, packed_.data() + at_, got);
    return got;
  }
  std::size_t inflate_into(void* target, std::size_t bytes) {
    constexpr std::size_t kMostAtOnce = 1u << 30;
    std::size_t got = 0;
    auto* const to = static_cast<Bytef*>(target);
    while (got < bytes && !ended_) {
      const std::size_t in = std::min(left_, kMostAtOnce), out = std::min(bytes - got, kMostAtOnce);
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = to + got;
      stream_.avail_out = static_cast<uInt>(out);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      left_ -= in - stream_.avail_in;
      got += out - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR) break;
      if (status != Z_OK && !ended_)
        fail_at(title_, at_,
                std::string("the compressed data are damaged: ") + (stream_.msg ? stream_.msg : "zlib"));
    }
    return got;
  }

  std::string title_;
  std::vector<std::byte> packed_;
  bool gzip_, ended_ = false;
  std::int64_t at_ = 0;  // in the unpacked data
  std::size_t left_ = 0;
  z_stream stream_{};
};

// Big-endian elements become the machine's.
void swap_elements(std::byte* data, std::int64_t count, std::size_t size) {
  for (std::int64_t i = 0; i < count; ++i, data += size) std::reverse(data, data + size);
}

}  // namespace

NDArray load_idx(const std::string& path, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("load_idx", [&] {
    IdxSource source(path);
    unsigned char magic[4];
    source.read(magic, sizeof magic);
    if (magic[0] != 0 || magic[1] != 0) fail_at(source.title(), 0, "no IDX file");
    const DType dtype = idx_dtype(magic[2], source.title());
    if (magic[3] > kMaxDims)
      fail_at(source.title(), 3,
              std::to_string(magic[3]) + " axes; at most " + std::to_string(kMaxDims) + " are read");
    Shape shape;
    std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
    for (int axis = 0; axis < magic[3]; ++axis) {
      unsigned char word[4];
      source.read(word, sizeof word);
      const std::int64_t size = std::int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3];
      shape.push_back(size);
      if (size > 0 && bytes > source.most() / size) {
        fail_at(source.title(), 4 + 4 * axis,
                "the head claims an array " + shape.to_string() + ", more than the file can hold");
      }
      bytes *= size;
    }
    const NDArray result(shape, dtype);
    if (bytes > 0) {
      source.read(result.data<std::byte>(), static_cast<std::size_t>(bytes));
      swap_elements(result.data<std::byte>(), result.size(), size_of(dtype));
    }
    source.expect_end();
    return result;
  });
}

}  // namespace heddle
