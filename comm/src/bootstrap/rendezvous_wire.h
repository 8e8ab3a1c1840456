// The frames of a rendezvous, and a channel that sends and receives them without blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <heddle/comm_error.h>

#include "security/tls_connection.h"

namespace heddle::comm_detail {

using namespace net_detail;

constexpr std::size_t kLongestText = 64 * 1024;

enum class FrameType : std::uint16_t {
  hello = 1,  // from a rank that connects: its rank, and the size of its job
  accepted,   // from rank 0, after a hello; if the connection ends after this, a rank has failed
  welcome,    // from rank 0, when all ranks have connected; round is the epoch
  text,       // the sender's text of an all_gather; `round` is that all_gather's number
  result,     // from rank 0: the text of rank `rank` of an all_gather
  failure,    // why the rendezvous has failed; `rank` is the lost rank, or -1
};

// The wire format; `length` bytes of text follow. All ranks must have one byte order, which `magic` checks.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x5a564448;  // "HDVZ"
  static constexpr std::uint16_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  FrameType type = FrameType::hello;
  std::int32_t rank = -1;
  std::int32_t size = 0;  // size of the job
  std::uint32_t round = 0;
  std::uint32_t length = 0;
};
static_assert(sizeof(FrameHeader) == 24);

struct Frame {
  FrameHeader header;
  std::string text{};
};

// Thrown for bytes that are no frame of this job.
class BadFrame : public CommError {
 public:
  using CommError::CommError;
};

// Encoded frames, shared by the channels that send them.
using Packed = std::shared_ptr<const std::string>;
void pack(std::string& into, FrameHeader header, const std::string& text);

class Channel {
 public:
  explicit Channel(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  // Returns what to poll for before the caller sleeps; nullopt: something can be sent or received at once.
  std::optional<pollfd> before_sleep(bool to_receive) {
    return connection_->before_sleep(has_unsent(), to_receive);
  }
  // See Connection::handshake_error.
  std::string handshake_error() const { return connection_->handshake_error(); }
  // Whether the first received bytes are those of a rank that does not encrypt (sent_plain_hello), or of one
  // that does (sent_tls_hello). Valid before a frame has been taken by next().
  bool sent_plain_hello() const;
  bool sent_tls_hello() const { return is_tls_hello(in_); }
  // Sends a frame without encryption, as far as the socket takes it at once.
  void send_plain(FrameHeader header, const std::string& text) const;
  // Receives what has arrived, up to the size of the longest frame. False if the connection has ended.
  bool receive();
  // The next frame, if it has been received completely. Throws BadFrame as soon as a header is invalid.
  std::optional<Frame> next(int job_size);
  void post(FrameHeader header, const std::string& text = "");
  void post(Packed frames) { out_.push_back(std::move(frames)); }
  // Sends as much as the connection takes. False if the connection has ended.
  bool flush();
  bool has_unsent() const { return !out_.empty(); }

 private:
  std::unique_ptr<Connection> connection_;
  std::string in_;
  std::deque<Packed> out_;
  std::size_t sent_ = 0;  // bytes of out_.front() that have been sent
};

}  // namespace heddle::comm_detail
