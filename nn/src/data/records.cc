#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include <dmlc/io.h>
#include <dmlc/memory_io.h>
#include <dmlc/recordio.h>

#include <heddle/data/records.h>

#include "data/input_file.h"

namespace heddle {

using namespace data_detail;

namespace {

// What MXNet writes before an image: a flag, which is the number of labels behind the head, or 0 for the one in it.
struct ImageHead {
  std::uint32_t flag;
  float label;
  std::uint64_t id, id2;
};
static_assert(sizeof(ImageHead) == 24);

// Runs call() with dmlc's errors as Heddle's.
template <class Call> decltype(auto) in_dmlc(const std::string& title, Call call) {
  try {
    return call();
  } catch (const dmlc::Error& error) {
    std::string text = error.what();
    text.erase(std::min(text.find("\nStack trace"), text.size()));
    while (text.ends_with('\n')) text.pop_back();
    throw Error(title + ": " + text);
  }
}

std::uint32_t word_at(const std::byte* file, std::int64_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, file + at, sizeof word);
  return word;
}

// The end of the record at `begin`, which may have several parts. All of them are in the file.
std::int64_t end_of_record(const std::string& title, std::span<const std::byte> file, std::int64_t begin) {
  const auto size = static_cast<std::int64_t>(file.size());
  for (std::int64_t at = begin;;) {
    if (size - at < 8) fail_at(title, at, "the file ends within a record's head");
    if (word_at(file.data(), at) != dmlc::RecordIOWriter::kMagic) fail_at(title, at, "no record begins here");
    const std::uint32_t head = word_at(file.data(), at + 4), flag = dmlc::RecordIOWriter::DecodeFlag(head);
    const std::int64_t bytes = (dmlc::RecordIOWriter::DecodeLength(head) + 3) / 4 * 4;
    if (flag > 3 || (flag < 2) != (at == begin))
      fail_at(title, at, "a part of a record that does not fit to the one before");
    if (bytes > size - at - 8)
      fail_at(title, at,
              "a record of " + std::to_string(bytes) + " bytes, where " + std::to_string(size - at - 8) +
                  " are left");
    at += 8 + bytes;
    if (flag == 0 || flag == 3) return at;
  }
}

// The record in [begin, end), which end_of_record has looked at. Its parts had the magic number between them.
std::string record_between(const std::byte* file, std::int64_t begin, std::int64_t end) {
  std::string record;
  for (std::int64_t at = begin; at < end;) {
    const std::uint32_t bytes = dmlc::RecordIOWriter::DecodeLength(word_at(file, at + 4)),
                        magic = dmlc::RecordIOWriter::kMagic;
    if (at != begin) record.append(reinterpret_cast<const char*>(&magic), sizeof magic);
    record.append(reinterpret_cast<const char*>(file) + at + 8, bytes);
    at += 8 + (std::int64_t{bytes} + 3) / 4 * 4;
  }
  return record;
}

// dmlc takes a name that it does not find for a regular expression, and what is behind '#' and '?' for options.
void check_uri(const std::string& uri) {
  const auto fail = [&](const std::string& problem) {
    throw Error("InputSplit: '" + uri.substr(0, uri.find('\0')) + "': " + problem);
  };
  if (uri.find('\0') != std::string::npos) fail("a file's name has a zero byte");
  if (uri.find_first_of("#?") != std::string::npos) fail("names with '#' or '?' are not supported");
  for (std::size_t begin = 0; begin <= uri.size();) {
    const std::size_t end = std::min(uri.find(';', begin), uri.size());
    std::string path = uri.substr(begin, end - begin);
    begin = end + 1;
    if (path.empty()) fail("a file's name is empty");
    if (path.starts_with("file://")) path.erase(0, 7);
    if (path.find("://") != std::string::npos) continue;  // of another file system
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (error) throw Error("InputSplit: " + title_of(path) + " cannot be opened: " + error.message());
    if (status.type() != std::filesystem::file_type::regular && !std::filesystem::is_directory(status))
      throw Error("InputSplit: " + title_of(path) + " is neither a regular file nor a folder");
  }
}

}  // namespace

struct RecordWriter::Stream {
  std::string title, record;
  std::FILE* file = nullptr;
  bool failed = false;

  ~Stream() {
    if (file) std::fclose(file);
  }
  [[noreturn]] void fail(int problem) {
    failed = true;
    throw Error(title + " cannot be written: " + std::strerror(problem));
  }
};

RecordWriter::RecordWriter(const std::string& path) : stream_(std::make_shared<Stream>()) {
  if (path.find('\0') != std::string::npos) throw Error("a file's name has a zero byte");
  stream_->title = title_of(path);
  stream_->file = std::fopen(path.c_str(), "wbe");
  if (!stream_->file) throw Error(stream_->title + " cannot be opened: " + std::strerror(errno));
}

void RecordWriter::write(std::string_view record) {
  if (record.size() >= std::size_t{1} << 29)
    throw InvalidArgument("RecordWriter: a record of " + std::to_string(record.size()) +
                          " bytes; wanted less than 512 MiB");
  if (!stream_->file) throw Error(stream_->title + " is closed");
  std::string& framed = stream_->record;
  framed.clear();
  in_dmlc(stream_->title, [&] {
    dmlc::MemoryStringStream memory(&framed);
    dmlc::RecordIOWriter(&memory).WriteRecord(record.data(), record.size());
  });
  if (std::fwrite(framed.data(), 1, framed.size(), stream_->file) != framed.size()) stream_->fail(errno);
}

void RecordWriter::close() {
  if (!stream_->file) return;
  const bool failed = stream_->failed;
  errno = 0;
  const bool flushed = std::fflush(stream_->file) == 0;
  const int problem = errno;
  const bool closed = std::fclose(std::exchange(stream_->file, nullptr)) == 0;
  if (!flushed) stream_->fail(problem);
  if (!closed) stream_->fail(errno);
  if (failed) throw Error(stream_->title + " is not whole: an earlier write failed");
}

void RecordWriter::write_image(std::string_view image, float label, std::uint64_t id) {
  const ImageHead head{0, label, id, 0};
  std::string record(reinterpret_cast<const char*>(&head), sizeof head);
  write(record.append(image));
}

RecordFile::RecordFile(const std::string& path) : path_(path) {
  const MappedBytes file = map_bytes(path);
  file_ = file.memory;
  std::int64_t at = 0;
  const std::span<const std::byte> bytes(file.memory.get(), static_cast<std::size_t>(file.size));
  for (; at < file.size; at = end_of_record(title_of(path_), bytes, at)) begins_.push_back(at);
  begins_.push_back(at);
}

std::string RecordFile::title(std::int64_t index) const {
  return title_of(path_) + ", byte " + std::to_string(begins_.at(static_cast<std::size_t>(index)));
}

std::string RecordFile::record(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidArgument("RecordFile: record " + std::to_string(index) + " of " + std::to_string(size()));
  const std::int64_t begin = begins_[static_cast<std::size_t>(index)],
                     end = begins_[static_cast<std::size_t>(index) + 1];
  return record_between(file_.get(), begin, end);
}

std::int64_t RecordFile::length(std::int64_t index) const {
  return begins_.at(static_cast<std::size_t>(index) + 1) - begins_.at(static_cast<std::size_t>(index)) - 8;
}

Example RecordFile::read(std::int64_t index) const {
  const std::string bytes = record(index);
  const NDArray result({static_cast<std::int64_t>(bytes.size())}, DType::u8);
  if (!bytes.empty()) std::memcpy(result.data<std::uint8_t>(), bytes.data(), bytes.size());
  return {result};
}

ImageRecords::ImageRecords(const std::string& path, ImageOptions options, std::int64_t labels)
    : file_(path), options_(options), labels_(labels) {
  if (labels < 1)
    throw InvalidArgument("ImageRecords: labels is " + std::to_string(labels) + "; wanted 1 or more");
}

std::vector<ExampleArray> ImageRecords::arrays() const {
  const bool any = options_.size[0] == 0;
  const Shape shape{options_.channels, any ? kInferred : options_.size[0],
                    any ? kInferred : options_.size[1]};
  return {{DType::u8, shape}, {DType::f32, {labels_}}};
}

Example ImageRecords::read(std::int64_t index) const {
  const std::string record = file_.record(index), title = file_.title(index);
  ImageHead head{};
  if (record.size() < sizeof head)
    throw Error(title + ": a record of " + std::to_string(record.size()) + " bytes, no image");
  std::memcpy(&head, record.data(), sizeof head);
  const std::size_t count = head.flag == 0 ? 1 : head.flag,
                    behind = head.flag == 0 ? 0 : std::size_t{head.flag} * 4;
  if (count != static_cast<std::size_t>(labels_))
    throw Error(title + ": a record with " + std::to_string(count) + " labels; wanted " +
                std::to_string(labels_));
  if (record.size() - sizeof head < behind) throw Error(title + ": the record ends within its labels");
  const NDArray labels({labels_}, DType::f32);
  std::memcpy(labels.data<float>(),
              head.flag == 0 ? reinterpret_cast<const char*>(&head.label) : record.data() + sizeof head,
              count * sizeof(float));
  const std::span<const char> image(record.data() + sizeof head + behind,
                                    record.size() - sizeof head - behind);
  return {decode_image(std::as_bytes(image), options_, title), labels};
}

struct InputSplit::Split {
  std::unique_ptr<dmlc::InputSplit> split;
  bool text = false;
  // Records in memory, and where the next one begins.
  std::span<const std::byte> chunk;
  std::int64_t at = 0, chunks = 0;
};

InputSplit::InputSplit(const std::string& uri, int part, int parts, Kind kind)
    : split_(std::make_shared<Split>()), uri_(uri) {
  if (parts < 1 || part < 0 || part >= parts)
    throw InvalidArgument("InputSplit: part " + std::to_string(part) + " of " + std::to_string(parts) +
                          "; wanted 0 to parts - 1");
  check_uri(uri);
  split_->text = kind == Kind::text;
  in_dmlc("InputSplit: '" + uri + "'", [&] {
    split_->split.reset(dmlc::InputSplit::Create(uri.c_str(), static_cast<unsigned>(part),
                                                 static_cast<unsigned>(parts),
                                                 kind == Kind::text ? "text" : "recordio"));
  });
}

std::optional<std::string> InputSplit::next() {
  return in_dmlc("InputSplit: '" + uri_ + "'", [&] { return split_->text ? next_line() : next_record(); });
}

std::optional<std::string> InputSplit::next_line() {
  dmlc::InputSplit::Blob blob{nullptr, 0};
  if (!split_->split->NextRecord(&blob)) return std::nullopt;
  std::string record(static_cast<const char*>(blob.dptr), blob.size);
  // A line comes with its end, of which dmlc may have overwritten a byte.
  while (!record.empty() && std::strchr("\r\n", record.back())) record.pop_back();
  return record;
}

// dmlc gives whole records only where the file is whole, and reads behind the end of others: so it gives chunks alone.
std::optional<std::string> InputSplit::next_record() {
  Split& split = *split_;
  while (split.at == static_cast<std::int64_t>(split.chunk.size())) {
    dmlc::InputSplit::Blob blob{nullptr, 0};
    if (!split.split->NextChunk(&blob)) return std::nullopt;
    split.chunk = {static_cast<const std::byte*>(blob.dptr), blob.size};
    split.at = 0;
    ++split.chunks;
  }
  const std::int64_t end = end_of_record("InputSplit: '" + uri_ + "', chunk " + std::to_string(split.chunks),
                                         split.chunk, split.at);
  return record_between(split.chunk.data(), std::exchange(split.at, end), end);
}

void InputSplit::restart() {
  split_->chunk = {};
  split_->at = split_->chunks = 0;
  in_dmlc("InputSplit: '" + uri_ + "'", [&] { split_->split->BeforeFirst(); });
}

}  // namespace heddle
