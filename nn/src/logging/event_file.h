// A file of records as TensorFlow writes them: length, its checksum, content, its checksum.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>

namespace heddle::nn_detail {

// CRC-32C, rotated and added to a constant, as the format has it.
std::uint32_t masked_crc32c(std::string_view data);

// Any thread.
class EventFile {
 public:
  // Makes the file, which must not exist. Throws Error.
  explicit EventFile(std::string path);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Appends a record, whole or not at all. An error is kept for check().
  void append(std::string_view record) noexcept;
  // Throws the first error since the last check().
  void check();
  void close();
  const std::string& path() const { return path_; }

 private:
  void write_all(std::string_view frame);

  const std::string path_;
  std::mutex mutex_;  // guards the members below; nothing else is locked while it is held
  int file_ = -1;
  std::int64_t size_ = 0;  // of the whole records
  int error_ = 0;          // of the first record that is missing
  std::int64_t missing_ = 0;
};

}  // namespace heddle::nn_detail
