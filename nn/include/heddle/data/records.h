// RecordIO, the files of MXNet, and parts of large sets of files, by dmlc-core (libdmlc-dev).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/data/images.h>

namespace heddle {

// Writes records one after the other. Not thread-safe. Errors name the file. The destructor closes it without an error.
class RecordWriter {
 public:
  explicit RecordWriter(const std::string& path);
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(std::string_view record);  // below 512 MiB
  // Writes an image file's bytes with a label, in the format of MXNet's im2rec.
  void write_image(std::string_view image, float label, std::uint64_t id = 0);
  void close();  // throws Error if not all could be written; afterwards, does nothing

 private:
  struct Stream;
  std::shared_ptr<Stream> stream_;
};

// The records of a file, in any order: examples {bytes u8 (kInferred)}.
class RecordFile : public Dataset {
 public:
  // Maps the file and looks at every record's head. Throws Error naming the file and the offset of what is wrong. The file
  // must not be truncated meanwhile.
  explicit RecordFile(const std::string& path);
  std::int64_t size() const override { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::vector<ExampleArray> arrays() const override { return {{DType::u8, {kInferred}}}; }
  Example read(std::int64_t index) const override;
  std::int64_t length(std::int64_t index) const override;
  std::string record(std::int64_t index) const;
  std::string title(std::int64_t index) const;  // "file 'x.rec', byte 24", for messages

 private:
  std::string path_;
  std::shared_ptr<const std::byte> file_;
  std::vector<std::int64_t> begins_;  // of each record's head, and the end
};

// A RecordFile of MXNet's image records: examples {image u8 (C, H, W), label f32 (labels)}.
class ImageRecords : public Dataset {
 public:
  // labels: numbers that each record has. Other records are errors.
  explicit ImageRecords(const std::string& path, ImageOptions options = {}, std::int64_t labels = 1);
  std::int64_t size() const override { return file_.size(); }
  std::vector<ExampleArray> arrays() const override;
  Example read(std::int64_t index) const override;

 private:
  RecordFile file_;
  ImageOptions options_;
  std::int64_t labels_;
};

// Part `part` of `parts` of files, cut at records, which are read one after the other: for sets that are too large to be
// looked through first. `uri` is a file, a folder, or several with ';' between them, without '#' and '?' in their names. Reads ahead on
// a thread of its own. Not thread-safe. Throws Error for what does not exist and for damaged records.
class InputSplit {
 public:
  enum class Kind { text, records };  // lines, or RecordIO
  InputSplit(const std::string& uri, int part, int parts, Kind kind);
  InputSplit(const InputSplit&) = delete;
  InputSplit& operator=(const InputSplit&) = delete;
  std::optional<std::string> next();  // the next record; none at the end
  void restart();

 private:
  struct Split;
  std::optional<std::string> next_line();
  std::optional<std::string> next_record();
  std::shared_ptr<Split> split_;
  std::string uri_;
};

}  // namespace heddle
