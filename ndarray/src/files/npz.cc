#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>
#include <zip.h>

#include <heddle/array_error.h>
#include <heddle/array_op.h>
#include <heddle/npz.h>

#include "arrays/gpu_copy.h"
#include "files/atomic_file.h"
#include "files/npy_reader.h"
#include "files/path.h"

namespace heddle {

using namespace ndarray_detail;

namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kMaxName = 65535 - kSuffix.size();  // the longest name that a zip archive can have

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw Error("npz file '" + path + "': " + problem);
}

// A deleter for an open archive that was not committed: it closes the archive without a change to the file.
struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

Archive open_archive(const std::string& path, int flags) {
  check_path(path);
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  fail(path, "cannot be opened: " + text);
}

// An entry of an archive that is being read.
class ZipEntry final : public ByteSource {
 public:
  ZipEntry(const std::string& path, zip_t* archive, zip_uint64_t index) : path_(path) {
    zip_stat_t status;
    if (zip_stat_index(archive, index, 0, &status) != 0) heddle::fail(path, zip_strerror(archive));
    name_ = status.name;
    if ((status.valid & ZIP_STAT_ENCRYPTION_METHOD) && status.encryption_method != ZIP_EM_NONE)
      fail("is encrypted");
    set_left(status.size);
    file_ = zip_fopen_index(archive, index, 0);
    if (!file_) fail(std::string("cannot be read: ") + zip_strerror(archive));
  }
  ~ZipEntry() override {
    if (file_) zip_fclose(file_);
  }
  ZipEntry(const ZipEntry&) = delete;
  ZipEntry& operator=(const ZipEntry&) = delete;

  const std::string& name() const { return name_; }
  // Checks that the entry ends here. libzip compares the checksum when the end is reached.
  void check_end() {
    char more;
    const zip_int64_t got = zip_fread(file_, &more, 1);
    if (got < 0) fail(std::string("is damaged: ") + zip_file_strerror(file_));
    if (got > 0) fail("has more bytes than it says");
  }

 private:
  std::string title() const override { return "npz file '" + path_ + "': '" + name_ + "' "; }
  void read_all(void* target, std::size_t bytes) override {
    char* at = static_cast<char*>(target);
    while (bytes > 0) {
      const zip_int64_t got = zip_fread(file_, at, bytes);
      if (got < 0) fail(std::string("is damaged: ") + zip_file_strerror(file_));
      if (got == 0) fail("is cut short");
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

  std::string path_, name_;
  zip_file_t* file_ = nullptr;
};

using Arrays = std::vector<std::pair<std::string, NDArray>>;

// An entry to write into an archive: a header and the bytes of an array, one after the other.
struct Parts {
  std::string name, header;
  std::vector<std::byte> data;
  std::size_t at = 0;

  std::size_t bytes() const { return header.size() + data.size(); }

  std::size_t read(char* to, std::size_t wanted) {
    std::size_t done = 0;
    if (at < header.size()) done += header.copy(to, wanted, at);
    const std::size_t begin = at + done - header.size();
    if (done < wanted && begin < data.size()) {
      const std::size_t count = std::min(wanted - done, data.size() - begin);
      std::memcpy(to + done, data.data() + begin, count);
      done += count;
    }
    at += done;
    return done;
  }
};

zip_int64_t read_parts(void* user, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  Parts& parts = *static_cast<Parts*>(user);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      parts.at = 0;
      return 0;
    case ZIP_SOURCE_READ:
      return static_cast<zip_int64_t>(parts.read(static_cast<char*>(data), length));
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_STAT: {
      auto* status = static_cast<zip_stat_t*>(data);
      zip_stat_init(status);
      status->valid = ZIP_STAT_SIZE | ZIP_STAT_MTIME;
      status->size = parts.bytes();
      status->mtime = 315532800;  // 1980-01-01, zip's first day: the same content gives the same bytes
      return sizeof *status;
    }
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(nullptr, data, length);
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                            ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
    default:
      return -1;
  }
}

void write_archive(const std::string& path, std::vector<Parts>& all, NpzOptions options) {
  if (is_special(path)) fail(path, "is a device or a pipe; an archive with arrays wants a file");
  Archive archive = open_archive(behind_links(path), ZIP_CREATE | ZIP_TRUNCATE);
  const auto check = [&](bool good) {
    if (!good) fail(path, std::string("cannot be written: ") + zip_strerror(archive.get()));
  };
  for (Parts& parts : all) {
    zip_source_t* const source = zip_source_function(archive.get(), read_parts, &parts);
    check(source);
    const zip_int64_t index = zip_file_add(archive.get(), parts.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    check(index >= 0);
    const auto place = static_cast<zip_uint64_t>(index);
    check(zip_set_file_compression(archive.get(), place, options.compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                   0) == 0);
  }
  check(zip_close(archive.get()) == 0);  // libzip reads the sources only in this call
  archive.release();
}

// libzip would remove the file instead of writing an archive without entries.
void write_empty_archive(const std::string& path) {
  constexpr char kEndOfCentralDirectory[22] = {'P', 'K', 5, 6};
  AtomicFile file(path);
  file.write(kEndOfCentralDirectory, sizeof kEndOfCentralDirectory);
  file.commit();
}

// Call only inside an op that reads the arrays.
std::vector<Parts> copied(const Arrays& arrays) {
  std::vector<Parts> all;
  for (const auto& [name, array] : arrays) {
    const auto* const begin = array.data<const std::byte>();
    const std::size_t bytes = static_cast<std::size_t>(array.size()) * size_of(array.dtype());
    all.push_back({name + std::string(kSuffix), npy_preamble({array.dtype(), false, array.shape()}), {}});
    if (bytes > 0) all.back().data.assign(begin, begin + bytes);
  }
  return all;
}

Arrays checked(const std::map<std::string, NDArray>& arrays) {
  Arrays list;
  for (const auto& [name, array] : arrays) {
    const std::string of = "save_npz: '" + name + "'";
    if (!array.defined()) refuse_undefined(of.c_str());
    if (array.dtype() == DType::bf16)
      throw InvalidArgument(of + ": npz files have no bf16; save_safetensors() keeps it, or cast to f32");
    if (name.find('\0') != std::string::npos || name.size() > kMaxName)
      throw InvalidArgument("save_npz: a name of " + std::to_string(name.size()) + " bytes; wanted at most " +
                            std::to_string(kMaxName) + " without a zero byte");
    list.emplace_back(name, on_cpu(array.detach()).contiguous());
  }
  return list;
}

}  // namespace

void save_npz(const std::string& path, const std::map<std::string, NDArray>& arrays, NpzOptions options,
              Where where) {
  const CallSite site(where);
  return in_file_call("save_npz", [&] {
    if (arrays.empty()) return write_empty_archive(path);
    const Arrays list = checked(arrays);
    std::vector<NDArray> values;
    for (const auto& [name, array] : list) values.push_back(array);
    Engine& engine = values.front().engine();
    const Var done = engine.new_var();
    Access access = array_access("save_npz", values, {});
    access.mutate.add(done);
    auto parts = std::make_shared<std::vector<Parts>>();
    engine.push([=] { *parts = copied(list); }, access, CallSite::current());
    engine.wait(done);
    // The archive is written on this thread: libzip leaks OpenSSL memory on each thread that uses it until
    // the thread ends, and the engine's threads do not end.
    write_archive(path, *parts, options);
  });
}

std::map<std::string, NDArray> load_npz(const std::string& path, Device device, Where where) {
  const CallSite site(where);
  return in_file_call("load_npz", [&] {
    const Archive archive = open_archive(path, ZIP_RDONLY);
    std::map<std::string, NDArray> arrays;
    const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
    for (zip_int64_t i = 0; i < entries; ++i) {
      ZipEntry entry(path, archive.get(), static_cast<zip_uint64_t>(i));
      std::string name = entry.name();
      if (!name.ends_with(kSuffix)) entry.fail("is no .npy file");
      name.resize(name.size() - kSuffix.size());
      const NDArray array = read_npy(entry, device);
      entry.check_end();
      if (!arrays.emplace(name, array).second) entry.fail("is there twice");
    }
    return arrays;
  });
}

}  // namespace heddle
