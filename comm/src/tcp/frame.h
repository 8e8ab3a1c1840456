// What stands on the wire. Each pair of ranks has two connections: one for data, which is read when the algorithm wants
// it and may lie full meanwhile; and one for control, which is always read, so that news of a failure never waits behind
// data that nobody reads. Every header ends with a seal that only those who know the job's key can make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/collective.h"
#include "core/failure.h"
#include "tcp/deadlock_search.h"

namespace heddle::comm_detail {

// 128 random bits, which the ranks learn from each other at the rendezvous and which never travel on these connections.
struct Key {
  std::uint64_t low = 0, high = 0;
};
Key random_key();
std::string to_text(const Key& key);
Key key_from(const std::string& text);  // throws CommError

// SipHash-2-4 (Aumasson and Bernstein 2012): 64 bits nobody can guess without the key.
std::uint64_t seal_of(const Key& key, std::span<const std::byte> bytes);

// In front of every message on a data connection.
struct MessageHeader {
  CallRecord record;
  std::uint64_t bytes = 0;    // of data that the receiver wants
  std::uint64_t number = 0;   // of the message on this connection, from 0: no message twice
  std::int32_t missing = -1;  // with record.failed: the rank that has no data to send; a text says why
  std::uint32_t text = 0;     // bytes of that text
  std::uint64_t seal = 0;
};
constexpr std::size_t kMessageHeader = 128 + 4 * 8;  // on the wire
constexpr std::size_t kMostText = 1024;
// So much of the data is read together with the header, before anybody has looked at that.
constexpr std::size_t kFirstPiece = 8192;
// What follows the header: the data; or the text, filled up so that a reader who expects data does not read beyond it.
std::size_t body_size(const MessageHeader& header);
void seal(MessageHeader& header, const Key& key);
// The seal is right, the record is valid and the text is not too long. Nothing else in the header means anything before.
bool genuine(const MessageHeader& header, const Key& key);

enum class FrameKind : std::uint8_t { hello, heartbeat, abort, leave, word, call, probe };
enum class ConnectionUse : std::uint8_t { data, control };

// A frame of a control connection; a hello comes first on both kinds of connection, in both directions.
struct ControlFrame {
  FrameKind kind = FrameKind::heartbeat;
  std::uint32_t epoch = 0;
  std::int32_t rank = -1;    // who sends it
  std::uint64_t number = 0;  // of the frame on this connection, from 0, the hello
  ConnectionUse channel = ConnectionUse::control;
  Failure failure{};   // of an abort
  std::string word{};  // of a survivor: survivors.h
  CallRecord call{};   // that a rank waits in: call_watch.h
  Probe probe{};       // along a wait: deadlock_search.h
};
constexpr std::size_t kFrameHeader = 40;
constexpr std::size_t kMaxFrame = kFrameHeader + 8192;

// A failure's text is cut to what fits.
std::string encode(const ControlFrame& frame, const Key& key);

struct Decoded {
  enum class Outcome : std::uint8_t { frame, incomplete, nonsense };
  Outcome outcome = Outcome::incomplete;
  std::size_t used = 0;  // bytes of the frame
  ControlFrame frame{};
};
// The frame at the front of `bytes`; nonsense if what is there cannot be the beginning of one.
Decoded decode(std::span<const std::byte> bytes, const Key& key);

// It came from another process, and goes to terminals and logs.
std::string printable(std::string text);

}  // namespace heddle::comm_detail
