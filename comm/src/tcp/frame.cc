#include "tcp/frame.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <sys/random.h>

#include <heddle/comm_error.h>

namespace heddle::comm_detail {
namespace {

constexpr std::uint32_t kFrameMagic = 0x43444548;  // "HEDC"
constexpr std::uint8_t kFrameVersion = 1;
constexpr std::uint8_t kKinds = 7, kUses = 2;

// The layout of a frame on the wire. The frame's text follows this struct.
struct RawFrame {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion;
  std::uint8_t kind = 0;
  std::uint8_t detail = 0;  // the use of a hello's connection, or the type of a failure
  std::uint8_t unused = 0;
  std::uint32_t epoch = 0;
  std::int32_t rank = 0;
  std::int32_t about = -1;  // the rank that a failure is about
  std::uint32_t text = 0;   // length of the text in bytes
  std::uint64_t number = 0;
  std::uint64_t seal = 0;
};
static_assert(sizeof(RawFrame) == kFrameHeader);

// The first bytes of a probe's text. The probe's path follows them.
struct RawProbe {
  std::int32_t origin = -1;
  std::uint32_t to_read = 0;
  std::uint64_t attempt = 0, message = 0;
};
static_assert(std::has_unique_object_representations_v<RawProbe>);
static_assert(offsetof(MessageHeader, seal) + sizeof(std::uint64_t) == kMessageHeader);

struct SipState {
  std::uint64_t a, b, c, d;
  void round() {
    a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
    c += d, d = std::rotl(d, 16) ^ c;
    a += d, d = std::rotl(d, 21) ^ a;
    c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
  }
  void take(std::uint64_t word) {
    d ^= word;
    round(), round();
    a ^= word;
  }
};

std::uint64_t seal_of(const Key& key, const RawFrame& raw, std::string_view text) {
  std::string sealed(reinterpret_cast<const char*>(&raw), offsetof(RawFrame, seal));
  sealed += text;
  return seal_of(key, std::as_bytes(std::span(sealed)));
}

bool plausible(const RawFrame& raw) {
  const auto kind = static_cast<FrameKind>(raw.kind);
  if (raw.magic != kFrameMagic || raw.version != kFrameVersion || raw.kind >= kKinds || raw.unused)
    return false;
  if (raw.text > kMaxFrame - kFrameHeader) return false;
  if (kind == FrameKind::abort) return raw.detail < Failure::kTypes;
  if (kind == FrameKind::survivor) return raw.detail == 0;
  if (kind == FrameKind::call) return raw.detail == 0 && raw.text == sizeof(CallRecord);
  if (kind == FrameKind::probe) return raw.detail == 0 && raw.text >= sizeof(RawProbe);
  return raw.text == 0 && raw.detail < (kind == FrameKind::hello ? kUses : 1);
}

Probe probe_of(std::string_view text) {
  RawProbe raw;
  std::memcpy(&raw, text.data(), sizeof raw);
  return {raw.origin, raw.to_read, raw.attempt, raw.message, std::string(text.substr(sizeof raw))};
}

std::string to_text(const Probe& probe) {
  const RawProbe raw{probe.origin, probe.to_read, probe.attempt, probe.message};
  return std::string(reinterpret_cast<const char*>(&raw), sizeof raw) + probe.path;
}

std::string text_of(const ControlFrame& frame) {
  switch (frame.kind) {
    case FrameKind::abort:
      return frame.failure.text;
    case FrameKind::survivor:
      return frame.survivor_message;
    case FrameKind::call:
      return std::string(reinterpret_cast<const char*>(&frame.call), sizeof frame.call);
    case FrameKind::probe:
      return to_text(frame.probe);
    default:
      return {};
  }
}

ControlFrame frame_of(const RawFrame& raw, std::string_view text) {
  ControlFrame frame{static_cast<FrameKind>(raw.kind), raw.epoch, raw.rank, raw.number};
  if (frame.kind == FrameKind::hello) frame.use = static_cast<ConnectionUse>(raw.detail);
  if (frame.kind == FrameKind::abort) {
    frame.failure = {static_cast<Failure::Type>(raw.detail), raw.about, std::string(text)};
  }
  if (frame.kind == FrameKind::survivor) frame.survivor_message = text;
  if (frame.kind == FrameKind::call) std::memcpy(&frame.call, text.data(), sizeof frame.call);
  if (frame.kind == FrameKind::probe) frame.probe = probe_of(text);
  return frame;
}

std::string to_hex(std::uint64_t word) {
  std::string digits(16, '0');
  for (auto at = digits.rbegin(); at != digits.rend(); ++at, word >>= 4) *at = "0123456789abcdef"[word & 15];
  return digits;
}

std::uint64_t from_hex(std::string_view text) {
  std::uint64_t word = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) {
    throw CommError("the key that came from the rendezvous is none");
  }
  return word;
}

}  // namespace

Key random_key() {
  Key key;
  if (getrandom(&key, sizeof key, 0) != sizeof key)
    throw CommError("the system has no random bits for a key");
  return key;
}

std::string to_text(const Key& key) { return to_hex(key.low) + to_hex(key.high); }

Key key_from(const std::string& text) {
  if (text.size() != 32) throw CommError("the key that came from the rendezvous is none");
  return {from_hex(text.substr(0, 16)), from_hex(text.substr(16))};
}

std::uint64_t seal_of(const Key& key, std::span<const std::byte> bytes) {
  SipState state{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
                 key.high ^ 0x7465646279746573};
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&word, bytes.data() + at, 8);
    state.take(word);
  }
  word = 0;
  if (at < bytes.size()) std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  state.take(word | std::uint64_t{bytes.size()} << 56);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

void seal(MessageHeader& header, const Key& key) {
  header.seal = seal_of(key, std::as_bytes(std::span(&header, 1)).first(offsetof(MessageHeader, seal)));
}

bool genuine(const MessageHeader& header, const Key& key) {
  const auto bytes = std::as_bytes(std::span(&header, 1)).first(offsetof(MessageHeader, seal));
  return header.seal == seal_of(key, bytes) && header.record.valid() && header.text <= kMaxMissingText;
}

std::size_t body_size(const MessageHeader& header) {
  if (!header.record.failed) return header.bytes;
  return std::max<std::size_t>(header.text, std::min<std::uint64_t>(header.bytes, kFirstPiece));
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string encode(const ControlFrame& frame, const Key& key) {
  std::string text = text_of(frame);
  text.resize(std::min(text.size(), kMaxFrame - kFrameHeader));
  RawFrame raw;
  raw.kind = static_cast<std::uint8_t>(frame.kind);
  raw.epoch = frame.epoch;
  raw.rank = frame.rank;
  raw.number = frame.number;
  raw.text = static_cast<std::uint32_t>(text.size());
  if (frame.kind == FrameKind::hello) raw.detail = static_cast<std::uint8_t>(frame.use);
  if (frame.kind == FrameKind::abort) {
    raw.detail = static_cast<std::uint8_t>(frame.failure.type);
    raw.about = frame.failure.rank;
  }
  raw.seal = seal_of(key, raw, text);
  return std::string(reinterpret_cast<const char*>(&raw), sizeof raw) + text;
}

Decoded decode(std::span<const std::byte> bytes, const Key& key) {
  if (bytes.size() < kFrameHeader) return {};
  RawFrame raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (!plausible(raw)) return {Decoded::Outcome::invalid};
  const std::size_t size = kFrameHeader + raw.text;
  if (bytes.size() < size) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kFrameHeader, raw.text);
  if (raw.seal != seal_of(key, raw, text)) return {Decoded::Outcome::invalid};
  return {Decoded::Outcome::frame, size, frame_of(raw, text)};
}

}  // namespace heddle::comm_detail
