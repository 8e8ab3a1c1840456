// The frames of a rendezvous, and how a connection carries them without ever blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <heddle/comm_error.h>

#include "net/tls_connection.h"

namespace heddle::comm_detail {

constexpr std::size_t kLongestText = 64 * 1024;

enum class FrameType : std::uint16_t {
  hello = 1,  // rank and size of who comes
  accepted,   // by rank 0; from here on the end of the connection is the end of a rank
  welcome,    // all have come; round is the epoch
  text,       // of the sender, in a round
  result,     // the text of `rank`, in a round
  failure,    // why there is no more to come; rank is who is lost, or -1
};

// As it lies on the wire, followed by `length` bytes of text. All ranks have one byte order: magic tells.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x5a564448;  // "HDVZ"
  static constexpr std::uint16_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  FrameType type = FrameType::hello;
  std::int32_t rank = -1;
  std::int32_t size = 0;  // of the job
  std::uint32_t round = 0;
  std::uint32_t length = 0;
};
static_assert(sizeof(FrameHeader) == 24);

struct Frame {
  FrameHeader header;
  std::string text{};
};

// What came is no frame of this job.
class BadFrame : public CommError {
 public:
  using CommError::CommError;
};

// Bytes to be sent, the same to many.
using Packed = std::shared_ptr<const std::string>;
void pack(std::string& into, FrameHeader header, const std::string& text);

class Channel {
 public:
  explicit Channel(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  // What to poll for. Nothing: something has come already.
  std::optional<pollfd> before_sleep(bool to_receive) {
    return connection_->before_sleep(has_unsent(), to_receive);
  }
  // Why one cannot talk to the other side, which is gone: Connection::trouble.
  std::string trouble() const { return connection_->trouble(); }
  // Who has connected and not been heard yet: a rank that does not encrypt, or (to one that does not) a rank that does.
  bool greets_plainly() const;
  bool greets_encrypted() const { return is_tls_hello(in_); }
  // To who does not encrypt; as much of it as goes at once.
  void answer_plainly(FrameHeader header, const std::string& text) const;
  // Takes what has come, one frame's worth at most. False: the other side is gone.
  bool receive();
  // The next frame of what was received, if all of it is there. Throws BadFrame as soon as a header is none.
  std::optional<Frame> next(int job_size);
  void post(FrameHeader header, const std::string& text = "");
  void post(Packed frames) { out_.push_back(std::move(frames)); }
  // Sends as much as the connection takes. False: the other side is gone.
  bool flush();
  bool has_unsent() const { return !out_.empty(); }

 private:
  std::unique_ptr<Connection> connection_;
  std::string in_;
  std::deque<Packed> out_;
  std::size_t sent_ = 0;  // of the first
};

}  // namespace heddle::comm_detail
