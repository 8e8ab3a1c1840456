#include "logging/event_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <string>
#include <unistd.h>
#include <utility>

#include <heddle/error.h>

namespace heddle::nn_detail {

namespace {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}

void append_number(std::string& to, const void* number, std::size_t size) {
  to.append(static_cast<const char*>(number), size);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc32c_table();
  std::uint32_t crc = 0xffffffffu;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

EventFile::EventFile(std::string path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) throw Error("event file '" + path_ + "' cannot be made: " + std::strerror(errno));
}

EventFile::~EventFile() { close(); }

void EventFile::write_all(std::string_view frame) {
  std::size_t done = 0;
  while (done < frame.size()) {
    const ssize_t written = ::write(file_, frame.data() + done, frame.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (error_ == 0) error_ = written < 0 ? errno : EIO;
      ++missing_;
      // What a record has left behind is removed, so that the next one follows a whole one.
      if (::ftruncate(file_, size_) == 0) ::lseek(file_, size_, SEEK_SET);
      return;
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(frame.size());
}

void EventFile::append(std::string_view record) noexcept {
  const std::uint64_t length = record.size();
  std::string frame;
  bool fits = true;
  try {
    append_number(frame, &length, sizeof length);
    const std::uint32_t of_length = masked_crc32c(frame), of_record = masked_crc32c(record);
    append_number(frame, &of_length, sizeof of_length);
    frame.append(record);
    append_number(frame, &of_record, sizeof of_record);
  } catch (const std::bad_alloc&) {
    fits = false;
  }
  const std::lock_guard guard(mutex_);
  if (file_ < 0) return;
  if (fits) return write_all(frame);
  if (error_ == 0) error_ = ENOMEM;
  ++missing_;
}

void EventFile::check() {
  const std::lock_guard guard(mutex_);
  if (missing_ == 0) return;
  const int error = std::exchange(error_, 0);
  const std::int64_t missing = std::exchange(missing_, 0);
  throw Error("event file '" + path_ + "' cannot be written: " + std::strerror(error) + "; " +
              std::to_string(missing) + (missing == 1 ? " record is" : " records are") + " missing");
}

void EventFile::close() {
  const std::lock_guard guard(mutex_);
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

}  // namespace heddle::nn_detail
