#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <heddle/array_error.h>
#include <heddle/npy.h>

#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/npy_header.h"
#include "files/npy_reader.h"
#include "files/path.h"

namespace heddle {

using namespace ndarray_detail;

static_assert(std::endian::native == std::endian::little,
              "npy files are written and read in memory's byte order");

namespace {

constexpr std::size_t kMagic = 8;  // "\x93NUMPY", major, minor
constexpr std::size_t kMaxHeader = 64 * 1024;

class InputFile final : public ByteSource {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    check_path(path);
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat status;
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail("is not a regular file");
    }
    set_left(static_cast<std::size_t>(status.st_size));
  }
  ~InputFile() override { ::close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

 private:
  std::string title() const override { return "file '" + path_ + "' "; }
  void read_all(void* target, std::size_t bytes) override {
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

  std::string path_;
  int file_;
};

// Reads a file that is mapped already, by copying.
class MappedSource final : public ByteSource {
 public:
  MappedSource(const std::string& path, const MappedFile& file) : path_(path), at_(file.memory.get()) {
    set_left(file.bytes);
  }
  const std::byte* at() const { return at_; }

 private:
  std::string title() const override { return "file '" + path_ + "' "; }
  void read_all(void* target, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(target, at_, bytes);
    at_ += bytes;
  }

  std::string path_;
  const std::byte* at_;
};

std::size_t read_header_length(ByteSource& file) {
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

NpyHeader read_header(ByteSource& file) {
  const std::size_t length = read_header_length(file);
  if (length > kMaxHeader)
    file.fail("has a header of " + std::to_string(length) + " bytes, more than allowed");
  std::string text(length, '\0');
  file.read(text.data(), length);
  try {
    return parse_npy_header(text);
  } catch (const StructuredDtype& error) {
    file.fail(error.what());
  } catch (const Error& error) {
    file.fail(std::string("has a bad header: ") + error.what());
  }
}

Shape reversed(const Shape& shape) {
  Shape result = shape;
  for (int i = 0; i < shape.size(); ++i) result[i] = shape[shape.size() - 1 - i];
  return result;
}

// Turns bytes above 1 into 1, since a bool with another byte would be undefined behaviour.
void normalise_bools(std::byte* bytes, std::size_t count) {
  // A byte is written only where that is needed, so that unchanged pages of a mapped file stay shared.
  for (std::byte* at = bytes; at != bytes + count; ++at)
    if (*at > std::byte{1}) *at = std::byte{1};
}

Shape shape_in_memory(const NpyHeader& header) {
  return header.fortran_order ? reversed(header.shape) : header.shape;
}

NDArray in_c_order(const NpyHeader& header, const NDArray& array) {
  if (!header.fortran_order) return array;
  Dims axes;
  for (int i = array.ndim() - 1; i >= 0; --i) axes.push_back(i);
  return array.permuted(axes);
}

}  // namespace

namespace ndarray_detail {

void ByteSource::fail(const std::string& what) const { throw Error(title() + what); }

void ByteSource::read(void* target, std::size_t bytes) {
  if (bytes > left_) fail("is cut short");
  left_ -= bytes;
  read_all(target, bytes);
}

NpyHeader read_npy_header(ByteSource& source) {
  const NpyHeader header = read_header(source);
  // The sizes are compared by division, since the product of the sizes in a corrupt header may overflow.
  const auto count = static_cast<std::size_t>(element_count(header.shape));
  const std::size_t size = size_of(header.dtype);
  if (source.left() % size != 0 || source.left() / size != count) {
    source.fail("has " + std::to_string(source.left()) + " bytes of data for shape " +
                header.shape.to_string() + " of " + name_of(header.dtype));
  }
  return header;
}

NDArray read_npy(ByteSource& source, Device device) {
  const NpyHeader header = read_npy_header(source);
  NDArray result(shape_in_memory(header), header.dtype, device);
  std::byte* data = result.data<std::byte>();  // no op uses the array yet, so its memory may be written
  source.read(data, result.storage()->bytes());
  if (header.dtype == DType::boolean) normalise_bools(data, result.storage()->bytes());
  return in_c_order(header, result).contiguous();
}

NDArray npy_in_memory(const NpyHeader& header, std::shared_ptr<std::byte> data) {
  const Shape shape = shape_in_memory(header);
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(header.dtype);
  if (bytes == 0) return NDArray(header.shape, header.dtype, cpu());
  if (header.dtype == DType::boolean) normalise_bools(data.get(), bytes);
  const auto storage = std::make_shared<Storage>(current_engine(), cpu(), bytes, std::move(data));
  return in_c_order(header, NDArray(storage, shape, header.dtype));
}

}  // namespace ndarray_detail

void save_npy(const std::string& path, const NDArray& array, Where where) {
  const CallSite site(where);
  return in_file_call("save_npy", [&] {
    if (!array.defined()) refuse_undefined("save_npy");
    if (array.dtype() == DType::bf16) {
      throw InvalidArgument("save_npy: npy files have no bf16; save_safetensors() keeps it, or cast to f32");
    }
    const NDArray values = array.detach().copy_to(cpu());
    values.wait();
    const std::string header = npy_preamble({array.dtype(), false, array.shape()});
    AtomicFile file(path);
    file.write(header.data(), header.size());
    file.write(values.data<const std::byte>(), values.storage()->bytes());
    file.commit();
  });
}

NDArray load_npy(const std::string& path, Device device, Where where) {
  const CallSite site(where);
  if (device.kind == DeviceKind::cuda) return load_npy(path, cpu(), where).copy_to(device);
  return in_file_call("load_npy", [&] {
    InputFile file(path);
    return read_npy(file, device);
  });
}

NDArray map_npy(const std::string& path, Where where) {
  const CallSite site(where);
  return in_file_call("map_npy", [&] {
    const MappedFile file = map_file(path);
    MappedSource source(path, file);
    const NpyHeader header = read_npy_header(source);
    const auto offset = static_cast<std::size_t>(source.at() - file.memory.get());
    if (offset % size_of(header.dtype) != 0) source.fail("has data that is not aligned: load_npy() reads it");
    return npy_in_memory(header, std::shared_ptr<std::byte>(file.memory, file.memory.get() + offset));
  });
}

}  // namespace heddle
