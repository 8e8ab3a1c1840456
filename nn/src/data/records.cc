#include <cstring>

#include <dmlc/io.h>
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
    throw Error(title + ": " + error.what());
  }
}

std::uint32_t word_at(const std::byte* file, std::int64_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, file + at, sizeof word);
  return word;
}

// The end of the record at `begin`, which may have several parts.
std::int64_t end_of_record(const std::string& title, const MappedBytes& file, std::int64_t begin) {
  for (std::int64_t at = begin;;) {
    if (file.size - at < 8) fail_at(title, at, "the file ends within a record's head");
    if (word_at(file.memory.get(), at) != dmlc::RecordIOWriter::kMagic)
      fail_at(title, at, "no record begins here");
    const std::uint32_t head = word_at(file.memory.get(), at + 4),
                        flag = dmlc::RecordIOWriter::DecodeFlag(head);
    const std::int64_t bytes = (dmlc::RecordIOWriter::DecodeLength(head) + 3) / 4 * 4;
    if (flag > 3 || (flag < 2) != (at == begin))
      fail_at(title, at, "a part of a record that does not fit to the one before");
    if (bytes > file.size - at - 8)
      fail_at(title, at,
              "a record of " + std::to_string(bytes) + " bytes, where " + std::to_string(file.size - at - 8) +
                  " are left");
    at += 8 + bytes;
    if (flag == 0 || flag == 3) return at;
  }
}

}  // namespace

struct RecordWriter::Stream {
  std::string title;
  std::unique_ptr<dmlc::Stream> stream;
  std::unique_ptr<dmlc::RecordIOWriter> writer;
};

RecordWriter::RecordWriter(const std::string& path) : stream_(std::make_shared<Stream>()) {
  stream_->title = title_of(path);
  in_dmlc(stream_->title, [&] { stream_->stream.reset(dmlc::Stream::Create(path.c_str(), "w")); });
  stream_->writer = std::make_unique<dmlc::RecordIOWriter>(stream_->stream.get());
}

void RecordWriter::write(std::string_view record) {
  if (record.size() >= std::size_t{1} << 29)
    throw InvalidArgument("RecordWriter: a record of " + std::to_string(record.size()) +
                          " bytes; wanted less than 512 MiB");
  in_dmlc(stream_->title, [&] { stream_->writer->WriteRecord(record.data(), record.size()); });
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
  for (; at < file.size; at = end_of_record(title_of(path_), file, at)) begins_.push_back(at);
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
  // dmlc puts the parts of a record together where they are.
  std::string bytes(reinterpret_cast<const char*>(file_.get()) + begin,
                    static_cast<std::size_t>(end - begin));
  return in_dmlc(title(index), [&] {
    dmlc::RecordIOChunkReader reader({bytes.data(), bytes.size()});
    dmlc::InputSplit::Blob blob{nullptr, 0};
    if (!reader.NextRecord(&blob)) throw Error(title(index) + ": no record");
    return std::string(static_cast<const char*>(blob.dptr), blob.size);
  });
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
};

InputSplit::InputSplit(const std::string& uri, int part, int parts, Kind kind)
    : split_(std::make_shared<Split>()), uri_(uri) {
  if (parts < 1 || part < 0 || part >= parts)
    throw InvalidArgument("InputSplit: part " + std::to_string(part) + " of " + std::to_string(parts) +
                          "; wanted 0 to parts - 1");
  split_->text = kind == Kind::text;
  in_dmlc("InputSplit: '" + uri + "'", [&] {
    split_->split.reset(dmlc::InputSplit::Create(uri.c_str(), static_cast<unsigned>(part),
                                                 static_cast<unsigned>(parts),
                                                 kind == Kind::text ? "text" : "recordio"));
  });
}

std::optional<std::string> InputSplit::next() {
  return in_dmlc("InputSplit: '" + uri_ + "'", [&]() -> std::optional<std::string> {
    dmlc::InputSplit::Blob blob{nullptr, 0};
    if (!split_->split->NextRecord(&blob)) return std::nullopt;
    std::string record(static_cast<const char*>(blob.dptr), blob.size);
    // A line comes with its end, of which dmlc may have overwritten a byte.
    while (split_->text && !record.empty() && std::strchr("\r\n", record.back())) record.pop_back();
    return record;
  });
}

void InputSplit::restart() {
  in_dmlc("InputSplit: '" + uri_ + "'", [&] { split_->split->BeforeFirst(); });
}

}  // namespace heddle
