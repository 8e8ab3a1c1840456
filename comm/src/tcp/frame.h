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

// 128 random bits, which rank 0 sends to the others at the rendezvous and which are never sent over these connections.
struct Key {
  std::uint64_t low = 0, high = 0;
};
Key random_key();
std::string to_text(const Key& key);
Key key_from(const std::string& text);  // throws CommError

// SipHash-2-4 (Aumasson and Bernstein 2012): 64 bits that cannot be computed without the key.
std::uint64_t seal_of(const Key& key, std::span<const std::byte> bytes);

// The header of every message on a data connection.
struct MessageHeader {
  CallRecord record;
  std::uint64_t bytes = 0;  // bytes of data that follow
  // The message's number on this connection, from 0, so that a replayed message is refused.
  std::uint64_t number = 0;
  std::int32_t missing = -1;  // with record.failed: the rank that has no data to send; a text follows instead
  std::uint32_t text = 0;     // bytes of the text that follows instead
  std::uint64_t seal = 0;
};
constexpr std::size_t kMessageHeader = 128 + 4 * 8;  // bytes of a MessageHeader on the wire
constexpr std::size_t kMaxMissingText = 1024;
// Bytes of data that are read together with the header, before the header is checked.
constexpr std::size_t kFirstPiece = 8192;
// Bytes that follow the header: the data, or the text, padded so that a reader of data does not read beyond it.
std::size_t body_size(const MessageHeader& header);
void seal(MessageHeader& header, const Key& key);
// Whether the seal is right, the record valid and the text not too long. No other field is used before this is checked.
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
  ConnectionUse use = ConnectionUse::control;  // hello: the connection's use
  Failure failure{};                           // abort: the failure
  std::string survivor_message{};              // survivor: see survivors.h
  CallRecord call{};                           // call: what the sender waits in; see call_watch.h
  Probe probe{};                               // probe: see deadlock_search.h
};
constexpr std::size_t kFrameHeader = 40;
constexpr std::size_t kMaxFrame = kFrameHeader + 8192;

// Encodes a frame. Texts that are too long are cut.
std::string encode(const ControlFrame& frame, const Key& key);

struct Decoded {
  enum class Outcome : std::uint8_t { frame, incomplete, invalid };
  Outcome outcome = Outcome::incomplete;
  std::size_t used = 0;  // bytes of the frame
  ControlFrame frame{};
};
// The frame at the front of `bytes`. Invalid: no frame with this key begins so.
Decoded decode(std::span<const std::byte> bytes, const Key& key);

// Replaces control characters, since the text comes from another process, and is printed to terminals and
// logs.
std::string printable(std::string text);

}  // namespace heddle::comm_detail
