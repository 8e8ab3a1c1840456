// A file with the state of one server: a header, the messages of the state (wire/state_records.h) as frames
// with checksums, and a trailer with the number of messages and a checksum over all of them. A file that is
// not complete does not exist under its name.
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

// Thrown if a snapshot cannot be read. The error's message says which file, at which offset, and what is
// wrong.
class SnapshotError : public Error {
 public:
  using Error::Error;
};

struct SnapshotHeader {
  std::uint32_t number = 0, servers = 1;  // number of the server, and count of servers
  std::uint64_t sequence = 0;             // larger for each later snapshot of the server
  std::uint64_t incarnation = 0;          // incarnation of the process that wrote the snapshot
  std::chrono::system_clock::time_point time{};
};

class SnapshotWriter {
 public:
  // Makes the file. The constructor, add() and commit() throw Error if the file cannot be written.
  SnapshotWriter(const std::string& path, const SnapshotHeader& header);
  ~SnapshotWriter();  // removes the file unless commit() has succeeded
  void add(std::span<const std::byte> head, std::span<const std::byte> payload);
  // Blocks until the file is on the disk, under its name. Returns the file's size.
  std::uint64_t commit();

 private:
  void write(std::span<const std::byte> bytes);
  void flush();
  std::unique_ptr<AtomicFile> file_;
  std::vector<std::byte> buffer_;
  std::uint64_t messages_ = 0, bytes_ = 0;
  // Checksum over the preambles of all messages. A preamble has the checksums of the message's head and
  // payload.
  std::uint32_t sum_ = 0;
};

// Reads a snapshot, and checks all that it reads.
class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& path);  // throws SnapshotError, as do next() and read_again()

  const std::string& path() const { return path_; }
  const SnapshotHeader& header() const { return header_; }
  // Reads the next message. False: all messages have been read, and the trailer is right.
  bool next(std::vector<std::byte>& head, std::vector<std::byte>& payload);
  std::uint64_t offset() const { return offset_; }  // offset in the file at which next() goes on
  std::uint64_t bytes() const { return bytes_; }    // size of the file
  // Reads bytes of a payload, which next() has read already, from this offset in the file. To be called only
  // when next() is not called any more.
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
