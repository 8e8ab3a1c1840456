// The wire format. Each pair of ranks has two connections. The data connection is read when an algorithm waits for
// data, and may be full until then. The control connection is always read, so that failures never wait behind unread
// data. Every header ends with a seal (a message authentication code) that requires the job's key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/collective.h"
#include "core/failure.h"
#include "tcp/deadlock_search.h"

namespace heddle::comm_detail {

// The job's key: 128 random bits that rank 0 sends to the others at the rendezvous, and that are never sent
// over the data and control connections.
struct Key {
  std::uint64_t low = 0, high = 0;
};
Key random_key();
std::string to_text(const Key& key);
Key key_from(const std::string& text);  // throws CommError if `text` is no key

// SipHash-2-4 (Aumasson and Bernstein 2012): 64 bits that cannot be computed without the key.
std::uint64_t seal_of(const Key& key, std::span<const std::byte> bytes);

// The header of every message on a data connection.
struct MessageHeader {
  CallRecord record;
  std::uint64_t bytes = 0;  // bytes of data that follow the header
  // The message's number on this connection, from 0, so that a replayed message is refused.
  std::uint64_t number = 0;
  // With record.failed: the rank that has no data to send; a text follows instead of data.
  std::int32_t missing = -1;
  std::uint32_t text = 0;  // bytes of the text that follows the header instead of data
  std::uint64_t seal = 0;
};
constexpr std::size_t kMessageHeader = 128 + 4 * 8;  // bytes of a MessageHeader on the wire
constexpr std::size_t kMaxMissingText = 1024;
// Bytes of data that are read together with the header, before the header is checked.
constexpr std::size_t kFirstPiece = 8192;
// Bytes that follow the header: the data, or the text. A text is padded, so that a reader that expects data
// does not read beyond it.
std::size_t body_size(const MessageHeader& header);
void seal(MessageHeader& header, const Key& key);
// Whether the seal is right, the record valid and the text not too long. A receiver uses no other field of a
// header before it has checked this.
bool genuine(const MessageHeader& header, const Key& key);

enum class FrameKind : std::uint8_t { hello, heartbeat, abort, leave, survivor, call, probe };
enum class ConnectionUse : std::uint8_t { data, control };

// A frame of a control connection. Data connections have only one: the hello, which is the first frame of both
// kinds of connection, in both directions.
struct ControlFrame {
  FrameKind kind = FrameKind::heartbeat;
  std::uint32_t epoch = 0;
  std::int32_t rank = -1;                      // the sender's rank
  std::uint64_t number = 0;                    // the frame's number on this connection; 0: the hello
  ConnectionUse use = ConnectionUse::control;  // in a hello: the connection's use
  Failure failure{};                           // in an abort frame: the failure
  std::string survivor_message{};              // in a survivor frame: the message, see survivors.h
  CallRecord call{};  // in a call frame: the call that the sender waits in, see call_watch.h
  Probe probe{};      // in a probe frame: the probe, see deadlock_search.h
};
constexpr std::size_t kFrameHeader = 40;
constexpr std::size_t kMaxFrame = kFrameHeader + 8192;

// Encodes a frame for the wire. Texts that are too long are cut.
std::string encode(const ControlFrame& frame, const Key& key);

struct Decoded {
  enum class Outcome : std::uint8_t { frame, incomplete, invalid };
  Outcome outcome = Outcome::incomplete;
  std::size_t used = 0;  // bytes that the decoded frame takes at the front of the input
  ControlFrame frame{};
};
// Decodes the frame at the front of `bytes`. The outcome is `invalid` if no frame that is sealed with this
// key begins with these bytes.
Decoded decode(std::span<const std::byte> bytes, const Key& key);

// Replaces control characters, since the text comes from another process, and is printed to terminals and
// logs.
std::string printable(std::string text);

}  // namespace heddle::comm_detail
