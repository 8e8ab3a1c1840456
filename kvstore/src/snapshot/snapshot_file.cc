#include "snapshot/snapshot_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <utility>

#include <heddle/comm_error.h>

#include "files/atomic_file.h"
#include "transport/frame.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::uint64_t kMagic = 0x31544f4853444448;    // the bytes "HDDSHOT1"
constexpr std::uint64_t kTrailer = 0x31444e4553444448;  // the bytes "HDDSEND1"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kBuffer = 1 << 20;
constexpr FrameLimits kLimits{.head = 64 << 10, .payload = kPieceBytes};

// Bytes of a preamble that the checksum over all messages covers: all but the CRC at its end, since a CRC
// over bytes and their own CRC is a constant.
constexpr std::size_t kChained = kPreambleBytes - sizeof(std::uint32_t);
using Chain = std::array<std::byte, sizeof(std::uint32_t) + kChained>;

// Returns the checksum over all preambles up to this one. `before`: the checksum over the preambles before
// it.
std::uint32_t chained(std::uint32_t before, std::span<const std::byte, kPreambleBytes> preamble) {
  Chain both{};
  std::memcpy(both.data(), &before, sizeof before);
  std::memcpy(both.data() + sizeof before, preamble.data(), kChained);
  return checksum(both);
}

std::vector<std::byte> with_checksum(Writer writer) {
  std::vector<std::byte> bytes = writer.take();
  const std::uint32_t sum = checksum(bytes);
  const auto tail = std::as_bytes(std::span(&sum, 1));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

std::vector<std::byte> encode(const SnapshotHeader& header) {
  using std::chrono::milliseconds;
  const std::int64_t time = std::chrono::duration_cast<milliseconds>(header.time.time_since_epoch()).count();
  Writer writer;
  writer(kMagic, kVersion, std::uint16_t{0}, header.number, header.servers, header.sequence,
         header.incarnation, time);
  return with_checksum(std::move(writer));
}

// True if the last four bytes are the checksum of the bytes before them.
bool is_intact(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  const auto before = bytes.first(bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + before.size(), sizeof sum);
  return checksum(before) == sum;
}

}  // namespace

std::string utc_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

SnapshotWriter::SnapshotWriter(const std::string& path, const SnapshotHeader& header)
    : file_(std::make_unique<AtomicFile>(path, 0640)) {
  buffer_.reserve(kBuffer);
  write(encode(header));
}

SnapshotWriter::~SnapshotWriter() = default;

void SnapshotWriter::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  const bool large = bytes.size() > kBuffer / 2;  // large bytes are written without a copy to the buffer
  if (large || buffer_.size() + bytes.size() > kBuffer) flush();
  if (large) return file_->write(bytes.data(), bytes.size());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void SnapshotWriter::flush() {
  file_->write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void SnapshotWriter::add(std::span<const std::byte> head, std::span<const std::byte> payload) {
  const WirePreamble preamble = net_detail::encode(preamble_of(head, payload));
  sum_ = chained(sum_, preamble);
  ++messages_;
  write(preamble);
  write(head);
  if (!payload.empty()) write(payload);
}

std::uint64_t SnapshotWriter::commit() {
  Writer trailer;
  trailer(kTrailer, messages_, bytes_, sum_);
  write(with_checksum(std::move(trailer)));
  flush();
  file_->durable_commit();
  return bytes_;
}

SnapshotReader::SnapshotReader(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
  if (!file_) throw SnapshotError(path_ + " cannot be opened: " + std::strerror(errno));
  if (::fseeko(file_.get(), 0, SEEK_END) != 0)
    throw SnapshotError(path_ + " cannot be read: " + std::strerror(errno));
  bytes_ = static_cast<std::uint64_t>(::ftello(file_.get()));
  std::rewind(file_.get());
  read_header();
}

void SnapshotReader::refuse(const std::string& what) const {
  throw SnapshotError(path_ + ", byte " + std::to_string(message_at_) + ": " + what);
}

void SnapshotReader::read(std::span<std::byte> bytes) {
  if (bytes.size() > bytes_ - offset_) {
    refuse("the file is torn: " + std::to_string(bytes.size()) + " bytes should follow at byte " +
           std::to_string(offset_) + ", and it has " + std::to_string(bytes_) + " bytes");
  }
  if (!bytes.empty() && std::fread(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
    refuse(std::string("it cannot be read: ") + std::strerror(errno));
  offset_ += bytes.size();
}

void SnapshotReader::read_again(std::uint64_t offset, std::span<std::byte> bytes) {
  offset_ = message_at_ = offset;
  if (::fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) != 0)
    refuse(std::string("it cannot be read: ") + std::strerror(errno));
  read(bytes);
}

void SnapshotReader::read_header() {
  std::array<std::byte, kHeaderBytes> bytes{};
  read(bytes);
  Reader reader(bytes);
  if (reader.get<std::uint64_t>() != kMagic) refuse("it does not begin as a snapshot");
  const auto version = reader.get<std::uint16_t>();
  const auto zeros = reader.get<std::uint16_t>();
  if (!is_intact(bytes)) refuse("the checksum of the header is wrong");
  if (version != kVersion || zeros != 0) {
    refuse("it is of version " + std::to_string(version) + "; this program reads version " +
           std::to_string(kVersion));
  }
  reader(header_.number, header_.servers, header_.sequence, header_.incarnation);
  const std::chrono::milliseconds time(reader.get<std::int64_t>());
  using Limits = std::numeric_limits<std::chrono::system_clock::duration::rep>;
  const auto latest = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::duration(Limits::max()));
  if (time > latest || time < -latest) refuse("the time of the header is none");
  header_.time = std::chrono::system_clock::time_point(time);
}

bool SnapshotReader::next(std::vector<std::byte>& head, std::vector<std::byte>& payload) {
  message_at_ = offset_;
  WirePreamble preamble{};
  read(preamble);
  std::uint64_t magic = 0;
  std::memcpy(&magic, preamble.data(), sizeof magic);
  if (magic == kTrailer) return check_trailer(preamble), false;
  try {
    const Preamble sizes = decode(preamble, kLimits);
    head.resize(sizes.head_bytes);
    payload.resize(sizes.payload_bytes);
    read(head);
    read(payload);
    check_head(sizes, head);
    check_payload(sizes, payload);
  } catch (const CommError& error) {
    refuse(error.what());
  }
  sum_ = chained(sum_, preamble);
  ++messages_;
  return true;
}

void SnapshotReader::check_trailer(std::span<const std::byte> trailer) {
  if (!is_intact(trailer)) refuse("the checksum of the trailer is wrong");
  Reader reader(trailer);
  reader.get<std::uint64_t>();
  const auto messages = reader.get<std::uint64_t>(), bytes = reader.get<std::uint64_t>();
  const auto sum = reader.get<std::uint32_t>();
  if (messages != messages_ || bytes != message_at_) {
    refuse("it has " + std::to_string(messages_) + " messages in " + std::to_string(message_at_) +
           " bytes; written were " + std::to_string(messages) + " in " + std::to_string(bytes));
  }
  if (sum != sum_) refuse("the checksum over all messages is wrong: some are of another snapshot");
  if (offset_ != bytes_) refuse(std::to_string(bytes_ - offset_) + " bytes follow its end");
}

}  // namespace heddle::kv_detail
