#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <heddle/npy.h>

#include "files/atomic_file.h"
#include "files/npy_header.h"

namespace heddle {

static_assert(std::endian::native == std::endian::little,
              "npy files are written and read in memory's byte order");

namespace {

constexpr std::size_t kMagic = 8;  // "\x93NUMPY", major, minor
constexpr std::size_t kMaxHeader = 64 * 1024;

class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat status;
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail("is not a regular file");
    }
    left_ = static_cast<std::size_t>(status.st_size);
  }
  ~InputFile() { ::close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t left() const { return left_; }
  [[noreturn]] void fail(const std::string& what) const { throw Error("file '" + path_ + "' " + what); }

  void read(void* target, std::size_t bytes) {
    if (bytes > left_) fail("is cut short");
    left_ -= bytes;
    char* at = static_cast<char*>(target);
    while (bytes > 0) {
      const ssize_t got = ::read(file_, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
      if (got == 0) fail("is cut short");
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int file_;
  std::size_t left_;
};

std::size_t read_header_length(InputFile& file) {
  unsigned char magic[kMagic], length[4] = {};
  file.read(magic, sizeof magic);
  if (std::memcmp(magic, "\x93NUMPY", 6) != 0) file.fail("is no npy file");
  const int major = magic[6];
  if (major < 1 || major > 3 || magic[7] != 0) {
    file.fail("has npy version " + std::to_string(major) + "." + std::to_string(magic[7]) +
              ", not 1.0 to 3.0");
  }
  file.read(length, major == 1 ? 2 : 4);
  return length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 |
         std::size_t{length[3]} << 24;
}

ndarray_detail::NpyHeader read_header(InputFile& file) {
  const std::size_t length = read_header_length(file);
  if (length > kMaxHeader)
    file.fail("has a header of " + std::to_string(length) + " bytes, more than allowed");
  std::string text(length, '\0');
  file.read(text.data(), length);
  try {
    return ndarray_detail::parse_npy_header(text);
  } catch (const Error& error) {
    file.fail(std::string("has a bad header: ") + error.what());
  }
}

Shape reversed(const Shape& shape) {
  Shape result = shape;
  for (int i = 0; i < shape.size(); ++i) result[i] = shape[shape.size() - 1 - i];
  return result;
}

// A bool is a byte 0 or 1: other bytes of a file must not get into one.
void normalise_bools(std::byte* bytes, std::size_t count) {
  std::transform(bytes, bytes + count, bytes, [](std::byte b) { return std::byte{b != std::byte{0}}; });
}

}  // namespace

void save_npy(const std::string& path, const NDArray& array, Where where) {
  const CallSite site(where);
  if (!array.defined()) ndarray_detail::refuse_undefined("save_npy");
  if (array.dtype() == DType::bf16) {
    throw InvalidArgument("save_npy: npy files have no bf16; save_safetensors() keeps it, or cast to f32");
  }
  const NDArray values = array.detach().copy();
  values.wait();
  const std::string header = ndarray_detail::npy_preamble({array.dtype(), false, array.shape()});
  AtomicFile file(path);
  file.write(header.data(), header.size());
  file.write(values.data<const std::byte>(), values.storage()->bytes());
  file.commit();
}

NDArray load_npy(const std::string& path, Device device, Where where) {
  const CallSite site(where);
  InputFile file(path);
  const ndarray_detail::NpyHeader header = read_header(file);
  const Shape shape = header.fortran_order ? reversed(header.shape) : header.shape;
  // Compared by division: the product of the sizes in a corrupt header may overflow.
  const auto count = static_cast<std::size_t>(element_count(shape));
  const std::size_t size = size_of(header.dtype);
  if (file.left() % size != 0 || file.left() / size != count) {
    file.fail("has " + std::to_string(file.left()) + " bytes of data for shape " + header.shape.to_string() +
              " of " + name_of(header.dtype));
  }
  NDArray result(shape, header.dtype, device);
  std::byte* data = result.data<std::byte>();  // no op uses it yet
  file.read(data, result.storage()->bytes());
  if (header.dtype == DType::boolean) normalise_bools(data, result.storage()->bytes());
  if (!header.fortran_order) return result;
  Dims axes;
  for (int i = shape.size() - 1; i >= 0; --i) axes.push_back(i);
  return result.permuted(axes).contiguous();
}

}  // namespace heddle
