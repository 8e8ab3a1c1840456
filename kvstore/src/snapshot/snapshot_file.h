// A file with the state of one server: a header, the messages of the state (wire/state_records.h) as frames
// with checksums, and a trailer with their count and a checksum over all. It is complete, or not there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <heddle/error.h>

namespace heddle {

class AtomicFile;

namespace kv_detail {

// A snapshot that cannot be read: the message says which file, at which offset, and what is wrong.
class SnapshotError : public Error {
 public:
  using Error::Error;
};

struct SnapshotHeader {
  std::uint32_t number = 0, servers = 1;  // number of the server, and count of servers
  std::uint64_t sequence = 0;             // a later snapshot of the server has a larger one
  std::uint64_t incarnation = 0;          // incarnation of the process that wrote the snapshot
  std::chrono::system_clock::time_point time{};
};

class SnapshotWriter {
 public:
  // Throws Error if the file cannot be written, as do the other functions.
  SnapshotWriter(const std::string& path, const SnapshotHeader& header);
  ~SnapshotWriter();  // removes the file if it is not committed
  void add(std::span<const std::byte> head, std::span<const std::byte> payload);
  // Returns when the file is on the disk, under its name. Returns its size.
  std::uint64_t commit();

 private:
  void write(std::span<const std::byte> bytes);
  void flush();
  std::unique_ptr<AtomicFile> file_;
  std::vector<std::byte> buffer_;
  std::uint64_t messages_ = 0, bytes_ = 0;
  // Checksum over the preambles of all messages, which have the checksums of heads and payloads.
  std::uint32_t sum_ = 0;
};

// Reads a snapshot, and checks all that it reads.
class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& path);  // throws SnapshotError, as the other functions do

  const std::string& path() const { return path_; }
  const SnapshotHeader& header() const { return header_; }
  // Reads the next message. False: all have been read, and the trailer is right.
  bool next(std::vector<std::byte>& head, std::vector<std::byte>& payload);
  std::uint64_t offset() const { return offset_; }  // offset of what is read next
  std::uint64_t bytes() const { return bytes_; }    // size of the file
  // Reads bytes of a payload again that next() has read. To be called after the last next().
  void read_again(std::uint64_t offset, std::span<std::byte> bytes);
  // Throws SnapshotError: `what` is wrong with the message that was read last.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void read(std::span<std::byte> bytes);
  void read_header();
  void check_trailer(std::span<const std::byte> trailer);

  const std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  SnapshotHeader header_;
  std::uint64_t offset_ = 0, message_at_ = 0, bytes_ = 0, messages_ = 0;
  std::uint32_t sum_ = 0;
};

// A time as text, in UTC: "2026-11-23T04:05:06Z".
std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace kv_detail
}  // namespace heddle
