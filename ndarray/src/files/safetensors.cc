#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include <heddle/array_error.h>
#include <heddle/array_op.h>
#include <heddle/readable_safetensors.h>
#include <heddle/safetensors.h>

#include "arrays/gpu_copy.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/path.h"
#include "files/safetensors_writer.h"

namespace heddle {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::uint64_t kHeaderAlign = 8;
constexpr const char* kMetadata = "__metadata__";

// Keys of the metadata with checksums: one of the header's text, in which the digits of that checksum are
// zeros, and one of each array.
constexpr std::string kHeaderChecksum = "heddle.crc32", kArrayChecksum = "heddle.crc32:";
constexpr std::size_t kDigits = 8;

[[noreturn]] void damaged(const std::string& path, const std::string& problem) {
  throw Error("safetensors file '" + path + "': " + problem);
}

const char* format_name(DType dtype) {
  constexpr const char* kNames[] = {"F32",  "F64", "I32", "I64", "U8",  "BOOL", "F16",
                                    "BF16", "I8",  "I16", "U16", "U32", "U64"};
  static_assert(std::size(kNames) == std::size(kAllDTypes));
  return kNames[static_cast<std::size_t>(dtype)];
}

std::optional<DType> dtype_from_format(const std::string& name) {
  for (DType dtype : kAllDTypes) {
    if (name == format_name(dtype)) return dtype;
  }
  return std::nullopt;
}

std::string known_formats() {
  std::string text;
  for (DType dtype : kAllDTypes) text += (text.empty() ? "" : ", ") + std::string(format_name(dtype));
  return text;
}

using FileArrays = std::vector<std::pair<std::string, NDArray>>;
using Metadata = std::map<std::string, std::string>;

std::uint64_t byte_count(const NDArray& array) {
  return static_cast<std::uint64_t>(array.size()) * size_of(array.dtype());
}

// Largest elements first, so that every array starts at a multiple of its element size.
FileArrays in_file_order(const std::string& path, const Safetensors& content) {
  FileArrays arrays;
  for (const auto& [name, array] : content.arrays) {
    if (name == kMetadata) damaged(path, "no array can be called __metadata__");
    if (!array.defined()) ndarray_detail::refuse_undefined(("save_safetensors: '" + name + "'").c_str());
    arrays.emplace_back(name, array.detach().contiguous());
  }
  std::stable_sort(arrays.begin(), arrays.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  return arrays;
}

std::string checksum(const void* data, std::size_t bytes) {
  char digits[kDigits + 1];
  const uLong sum = ::crc32_z(0, static_cast<const Bytef*>(data), bytes);
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(sum));
  return digits;
}

// The position of the digits of the header's checksum in its text. The match is unique: in a name the quotes
// would be escaped.
std::size_t checksum_position(const std::string& text) {
  const std::string before = "\"" + kHeaderChecksum + "\":\"";
  const std::size_t found = text.find(before);
  return found == std::string::npos ? found : found + before.size();
}

std::string checksum_of_header(std::string text, std::size_t place) {
  text.replace(place, kDigits, kDigits, '0');
  return checksum(text.data(), text.size());
}

// Call only inside an op that reads the arrays.
Metadata with_checksums(Metadata metadata, const FileArrays& arrays) {
  metadata[kHeaderChecksum] = std::string(kDigits, '0');
  for (const auto& [name, array] : arrays) {
    metadata[kArrayChecksum + name] = checksum(array.data<const std::byte>(), byte_count(array));
  }
  return metadata;
}

std::string header_of(const std::string& path, const Metadata& metadata, const FileArrays& arrays) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, array] : arrays) {
    std::uint64_t end = offset + byte_count(array);
    header[name] = {{"dtype", format_name(array.dtype())},
                    {"shape", std::vector<std::int64_t>(array.shape().begin(), array.shape().end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    damaged(path, "names and metadata must be UTF-8");
  }
  text.resize((text.size() + kHeaderAlign - 1) / kHeaderAlign * kHeaderAlign, ' ');
  if (text.size() > kMostHeaderBytes) damaged(path, "names and metadata take more than 100 MB");
  const std::size_t place = metadata.contains(kHeaderChecksum) ? checksum_position(text) : std::string::npos;
  if (place != std::string::npos) text.replace(place, kDigits, checksum_of_header(text, place));
  return text;
}

std::unique_ptr<AtomicFile> write_file(const std::string& path, const Metadata& metadata,
                                       const FileArrays& arrays, SafetensorsOptions options) {
  const std::string header =
      header_of(path, options.checksums ? with_checksums(metadata, arrays) : metadata, arrays);
  auto file = std::make_unique<AtomicFile>(path);
  const std::uint64_t length = header.size();
  file->write(&length, sizeof length);
  file->write(header.data(), header.size());
  for (const auto& [name, array] : arrays) {
    file->write(array.data<const std::byte>(), byte_count(array));
  }
  return file;
}

// One op reads all arrays, so that it sees a consistent state, whatever other threads push meanwhile.
std::unique_ptr<AtomicFile> write_file_by_op(const std::string& path, const Metadata& metadata,
                                             const FileArrays& arrays, SafetensorsOptions options) {
  std::vector<NDArray> values;
  for (const auto& [name, array] : arrays) values.push_back(array);
  Engine& engine = values.front().engine();
  const Var done = engine.new_var();
  Access access = array_access("save_safetensors", values, {});
  access.mutate.add(done);
  auto written = std::make_shared<std::unique_ptr<AtomicFile>>();
  engine.push([=] { *written = write_file(path, metadata, arrays, options); }, access, CallSite::current());
  engine.wait(done);
  return std::move(*written);
}

struct ArrayEntry {
  std::string name;
  std::string
      unknown{};  // not empty: the name of a dtype that there is not, of which shape and size are not looked at
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

// Converts a number of the header. The JSON library's own conversions would wrap negative and huge numbers.
std::uint64_t natural(const std::string& path, const std::string& name, const json& number) {
  if (!number.is_number_integer() || (!number.is_number_unsigned() && number.get<std::int64_t>() < 0)) {
    damaged(path, "array '" + name + "': " + number.dump().substr(0, 40) + " is no natural number");
  }
  auto value = number.get<std::uint64_t>();
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    damaged(path, "array '" + name + "': " + std::to_string(value) + " is too large");
  }
  return value;
}

const json& field(const std::string& path, const std::string& name, const json& entry, const char* key) {
  auto found = entry.find(key);
  if (found == entry.end()) damaged(path, "array '" + name + "' has no " + key);
  return *found;
}

ArrayEntry parse_entry(const std::string& path, const std::string& name, const json& value,
                       bool keeps_unknown) {
  if (!value.is_object()) damaged(path, "array '" + name + "' is described by no JSON object");
  ArrayEntry entry{.name = name, .dtype = DType::f32, .shape = {}, .begin = 0, .end = 0};
  const json& dtype = field(path, name, value, "dtype");
  std::string dtype_name = dtype.is_string() ? dtype.get<std::string>() : dtype.dump().substr(0, 40);
  std::optional<DType> known = dtype_from_format(dtype_name);
  if (!known && !keeps_unknown) {
    damaged(path, "array '" + name + "' has dtype " + dtype_name + "; known are " + known_formats());
  }
  if (!known) entry.unknown = dtype_name.empty() ? "''" : dtype_name;
  entry.dtype = known.value_or(DType::u8);

  const json& shape = field(path, name, value, "shape");
  if (!shape.is_array() || shape.size() > kMaxDims) {
    damaged(path,
            "array '" + name + "': its shape is no list of at most " + std::to_string(kMaxDims) + " numbers");
  }
  std::uint64_t bytes = size_of(entry.dtype);
  for (const json& number : shape) {
    std::uint64_t extent = natural(path, name, number);
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      damaged(path, "array '" + name + "': its size overflows 64 bits");
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }

  const json& offsets = field(path, name, value, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    damaged(path, "array '" + name + "': data_offsets is no pair");
  entry.begin = natural(path, name, offsets[0]);
  entry.end = natural(path, name, offsets[1]);
  if (entry.end < entry.begin || (entry.unknown.empty() && entry.end - entry.begin != bytes)) {
    damaged(path, "array '" + name + "': " + name_of(entry.dtype) + " " + entry.shape.to_string() +
                      " takes " + std::to_string(bytes) + " bytes, its offsets are [" +
                      std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")");
  }
  return entry;
}

// Reads a header in one pass: makes JSON of the value of one name at a time and passes it on. nlohmann's own
// parser with a callback would look at all names again after each value.
class HeaderHandler {
 public:
  using Take = std::function<void(const std::string& name, const json& value)>;

  HeaderHandler(const std::string& path, const Take& take) : path_(path), take_(take) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return add(value); }
  bool number_float(json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return true; }  // JSON has no binary values
  bool start_object(std::size_t) { return begin(json::object()); }
  bool start_array(std::size_t) { return begin(json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    if (depth_ == 1 && !names_.insert(name).second) damaged(path_, "the name '" + name + "' appears twice");
    (depth_ == 1 ? name_ : inner_) = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    damaged(path_, std::string("the header is no JSON: ") + error.what());
  }

 private:
  // Deeper values, which the format does not have, are dropped. That bounds the memory for a hostile header.
  static constexpr int kDeepest = 4;

  json* place(json value) {
    if (open_.empty()) return &(value_ = std::move(value));
    json& in = *open_.back();
    if (in.is_object()) return &(in[inner_] = std::move(value));
    in.push_back(std::move(value));
    return &in.back();
  }
  bool add(json value) {
    if (depth_ <= kDeepest) place(std::move(value));
    if (depth_ == 1) take_(name_, value_);
    return true;
  }
  bool begin(json value) {
    if (++depth_ > 1 && depth_ <= kDeepest + 1) open_.push_back(place(std::move(value)));
    return true;
  }
  bool end() {
    if (--depth_ >= 1 && depth_ <= kDeepest) open_.pop_back();
    if (depth_ == 1) take_(name_, value_);
    return true;
  }

  const std::string& path_;
  const Take& take_;
  std::unordered_set<std::string> names_;
  std::string name_, inner_;
  json value_;
  std::vector<json*> open_;  // nested objects and lists, the outermost first
  int depth_ = 0;
};

void parse_header(const std::string& path, const std::string& text, const HeaderHandler::Take& take) {
  if (text.empty() || text[0] != '{') damaged(path, "the header does not begin with '{'");
  HeaderHandler handler(path, take);
  json::sax_parse(text, &handler);
}

Metadata parse_metadata(const std::string& path, const json& value) {
  Metadata metadata;
  if (!value.is_object()) damaged(path, "__metadata__ is no JSON object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) damaged(path, "__metadata__: the value of '" + key + "' is no string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Removes the checksums from the metadata: returns those of the arrays, and checks that of the header against
// `text`.
Metadata take_checksums(const std::string& path, const std::string& text, Metadata& metadata) {
  Metadata checksums;
  const bool whole = metadata.erase(kHeaderChecksum) > 0;
  for (auto at = metadata.lower_bound(kArrayChecksum);
       at != metadata.end() && at->first.starts_with(kArrayChecksum); at = metadata.erase(at)) {
    checksums[at->first.substr(kArrayChecksum.size())] = at->second;
  }
  if (!whole && checksums.empty()) return checksums;
  const std::size_t place = checksum_position(text);
  if (place == std::string::npos || text.compare(place, kDigits, checksum_of_header(text, place)) != 0) {
    damaged(path, "the header does not match its checksum: the file is damaged");
  }
  return checksums;
}

// The format requires that the arrays cover the data exactly, in any order.
void check_cover(const std::string& path, std::vector<ArrayEntry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const ArrayEntry& a, const ArrayEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t offset = 0;
  for (const ArrayEntry& entry : entries) {
    if (entry.begin < offset) damaged(path, "array '" + entry.name + "' overlaps the one before it");
    if (entry.begin > offset) damaged(path, "there is a hole before array '" + entry.name + "'");
    offset = entry.end;
  }
  if (offset != data_bytes) {
    damaged(path, "its arrays take " + std::to_string(offset) + " bytes, the file has " +
                      std::to_string(data_bytes));
  }
}

// An open file whose header has been read and checked.
class SafetensorsReader {
 public:
  // `keeps_unknown`: arrays of a dtype that there is not are entries too.
  explicit SafetensorsReader(const std::string& path, bool keeps_unknown = false) : path_(path) {
    ndarray_detail::check_path(path);
    in_.open(path, std::ios::binary | std::ios::ate);
    if (!in_) damaged(path_, std::string("cannot be opened: ") + std::strerror(errno));
    std::streamoff at_end = in_.tellg();
    if (at_end < 0) damaged(path_, "is no regular file");
    std::string text = read_header(static_cast<std::uint64_t>(at_end));
    parse_header(path_, text, [&](const std::string& name, const json& value) {
      name == kMetadata ? void(metadata_ = parse_metadata(path_, value))
                        : entries_.push_back(parse_entry(path_, name, value, keeps_unknown));
    });
    checksums_ = take_checksums(path_, text, metadata_);
    data_begin_ = sizeof(std::uint64_t) + text.size();
    check_cover(path_, entries_, static_cast<std::uint64_t>(at_end) - data_begin_);
  }

  const Metadata& metadata() const { return metadata_; }
  const std::vector<ArrayEntry>& entries() const { return entries_; }  // the entries in the order of the file

  // The array on the pages of the mapped file, or a copy if its data are misaligned in the file.
  NDArray map_array(const ArrayEntry& entry, const ndarray_detail::MappedFile& file) const {
    std::byte* const at = file.memory.get() + data_begin_ + entry.begin;
    const std::uint64_t bytes = entry.end - entry.begin;
    if (file.bytes < data_begin_ + entry.end) damaged(path_, "has got shorter");
    if (entry.dtype == DType::boolean) check_bools(entry, at, bytes);
    const NDArray copied = bytes == 0 || reinterpret_cast<std::uintptr_t>(at) % size_of(entry.dtype)
                               ? NDArray(entry.shape, entry.dtype, cpu())
                               : NDArray();
    if (!copied.defined()) {
      auto storage = std::make_shared<Storage>(current_engine(), cpu(), bytes,
                                               std::shared_ptr<std::byte>(file.memory, at));
      return NDArray(std::move(storage), entry.shape, entry.dtype);
    }
    // No op uses the array yet, so this thread may write its memory.
    if (bytes > 0) std::memcpy(copied.data<std::byte>(), at, bytes);
    return copied;
  }

  // Reads the array of one entry. Call for all entries in the order of the file, since the file is read from
  // front to back.
  NDArray read_array(const ArrayEntry& entry, Device device) {
    NDArray array(entry.shape, entry.dtype, device);
    std::vector<std::byte> bytes(entry.end - entry.begin);
    read(bytes.data(), bytes.size());
    check_sum(entry, bytes);
    if (entry.dtype == DType::boolean) check_bools(entry, bytes.data(), bytes.size());
    array_push("load_safetensors", {}, {array}, [array = array.detach(), bytes = std::move(bytes)] {
      if (!bytes.empty()) std::memcpy(array.data<std::byte>(), bytes.data(), bytes.size());
    });
    return array;
  }

 private:
  // Reading a bool that is neither 0 nor 1 would be undefined behaviour.
  void check_bools(const ArrayEntry& entry, const std::byte* bytes, std::size_t count) const {
    if (std::any_of(bytes, bytes + count, [](std::byte b) { return b > std::byte{1}; }))
      damaged(path_, "array '" + entry.name + "' holds a bool above 1");
  }

  void check_sum(const ArrayEntry& entry, const std::vector<std::byte>& bytes) const {
    auto wanted = checksums_.find(entry.name);
    if (wanted == checksums_.end()) return;
    const std::string got = checksum(bytes.data(), bytes.size());
    if (got == wanted->second) return;
    damaged(path_, "array '" + entry.name + "' has the CRC-32 " + got + ", not " + wanted->second +
                       " as when it was saved: the file is damaged");
  }

  std::string read_header(std::uint64_t file_bytes) {
    in_.seekg(0);
    std::uint64_t length = 0;
    if (file_bytes < sizeof length) damaged(path_, "ends within the first 8 bytes");
    read(&length, sizeof length);
    if (length > kMostHeaderBytes) {
      damaged(path_,
              "claims a header of " + std::to_string(length) + " bytes; the format's limit is 100000000");
    }
    if (length > file_bytes - sizeof length) damaged(path_, "ends within its header");
    std::string text(length, '\0');
    read(text.data(), length);
    return text;
  }

  void read(void* to, std::uint64_t bytes) {
    if (!in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
      damaged(path_, "reading failed");
  }

  std::string path_;
  std::ifstream in_;
  Metadata metadata_, checksums_;
  std::vector<ArrayEntry> entries_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

namespace {

void check_metadata(const std::string& path, const Safetensors& content) {
  for (const auto& [name, text] : content.metadata) {
    if (name.starts_with(kHeaderChecksum))
      damaged(path, "metadata '" + name + "': that name is for checksums");
  }
}

}  // namespace

void save_safetensors(const std::string& path, const Safetensors& content, SafetensorsOptions options,
                      Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("save_safetensors", [&] {
    check_metadata(path, content);
    FileArrays arrays = in_file_order(path, content);
    for (auto& [name, array] : arrays) array = ndarray_detail::on_cpu(array);
    const auto write = arrays.empty() ? write_file : write_file_by_op;
    const auto file = write(path, content.metadata, arrays, options);
    file->durable_commit();
  });
}

void ndarray_detail::write_safetensors(const std::string& path, const Safetensors& content,
                                       SafetensorsOptions options) {
  check_metadata(path, content);
  write_file(path, content.metadata, in_file_order(path, content), options)->durable_commit();
}

Safetensors load_safetensors(const std::string& path, Device device, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("load_safetensors", [&] {
    SafetensorsReader reader(path);
    const bool on_gpu = device.kind == DeviceKind::cuda;
    Safetensors content{.arrays = {}, .metadata = reader.metadata()};
    for (const ArrayEntry& entry : reader.entries())
      content.arrays[entry.name] = reader.read_array(entry, on_gpu ? cpu() : device);
    if (on_gpu)
      for (auto& [name, array] : content.arrays) array = array.copy_to(device);
    return content;
  });
}

Safetensors map_safetensors(const std::string& path, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("map_safetensors", [&] {
    const SafetensorsReader reader(path);
    const ndarray_detail::MappedFile file = ndarray_detail::map_file(path);
    Safetensors content{.arrays = {}, .metadata = reader.metadata()};
    for (const ArrayEntry& entry : reader.entries())
      content.arrays[entry.name] = reader.map_array(entry, file);
    return content;
  });
}

ndarray_detail::ReadableSafetensors ndarray_detail::map_readable_safetensors(const std::string& path) {
  return in_file_call("map_safetensors", [&] {
    const SafetensorsReader reader(path, true);
    const MappedFile file = map_file(path);
    ReadableSafetensors found;
    for (const ArrayEntry& entry : reader.entries()) {
      if (!entry.unknown.empty()) {
        found.unreadable[entry.name] = entry.unknown;
      } else {
        found.arrays[entry.name] = reader.map_array(entry, file);
      }
    }
    return found;
  });
}

std::map<std::string, std::string> load_safetensors_metadata(const std::string& path, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("load_safetensors_metadata",
                                      [&] { return SafetensorsReader(path).metadata(); });
}

}  // namespace heddle
