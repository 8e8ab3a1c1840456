// Fuzz targets for the bytes of connections: preambles, streams of messages, and the hellos of servers and
// clients.
#include <algorithm>
#include <memory>

#include <heddle/comm_error.h>

#include "connection/connection.h"
#include "fuzz/fuzz_target.h"
#include "transport/frame.h"
#include "transport/net_handshake.h"
#include "transport/net_messages.h"

namespace heddle::fuzz {
namespace {

using namespace net_detail;
using net_detail::Step;

constexpr FrameLimits kLimits{.head = 2000, .payload = 5000};

Bytes frame_of(Input head, Input payload) {
  const WirePreamble wire = encode(preamble_of(head, payload));
  Bytes all(wire.begin(), wire.end());
  append(all, head);
  append(all, payload);
  return all;
}

// --- preambles

bool decode_preamble(std::span<const std::byte, kPreambleBytes> wire) {
  try {
    const Preamble preamble = decode(wire, kLimits);
    want(preamble.head_bytes <= kLimits.head && preamble.payload_bytes <= kLimits.payload,
         "a preamble's limits");
    const WirePreamble again = encode(preamble);
    want(std::equal(again.begin(), again.end(), wire.begin()), "a preamble that changes");
    return true;
  } catch (const CommError&) {
    return false;
  }
}

// Decodes a preamble twice: as it is, and with its checksum corrected.
bool run_frame(Input input) {
  WirePreamble wire{};
  std::copy_n(input.begin(), std::min(input.size(), wire.size()), wire.begin());
  const bool good = decode_preamble(wire);
  const std::uint32_t sum = checksum(std::span(wire).first(kPreambleBytes - 4));
  std::memcpy(wire.data() + kPreambleBytes - 4, &sum, sizeof sum);
  const bool sealed = decode_preamble(wire);
  want(!good || sealed, "a checksum that is right and is not");
  const Input behind = input.subspan(std::min(input.size(), kPreambleBytes));
  try {
    const Preamble preamble = preamble_of(behind, behind);
    check_head(preamble, behind);
    check_payload(preamble, behind);
  } catch (const CommError&) {
    want(false, "a message whose own preamble does not fit");
  }
  return sealed;
}

std::vector<Bytes> frame_seeds() {
  return {frame_of({}, {}), frame_of(bytes_from("head"), bytes_from("payload")),
          frame_of(bytes_from("head"), Bytes(4000))};
}

// --- streams

// A connection that delivers an input's bytes in chunks.
class Stream final : public net_detail::Connection {
 public:
  std::optional<pollfd> before_sleep(bool, bool) override { return std::nullopt; }
  const net_detail::Socket& socket() const override { throw CommError("there is no socket"); }
  void finish_sending() override {}
  bool all_delivered() override { return true; }
  Stream(Bytes bytes, std::size_t chunk) : bytes_(std::move(bytes)), chunk_(chunk) {}
  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    return {Step::Outcome::moved, head.size() + body.size()};
  }
  Step receive(std::span<std::byte> head, std::span<std::byte> body) override {
    const std::size_t bytes = std::min({bytes_.size() - at_, head.size() + body.size(), chunk_});
    if (bytes == 0) return {Step::Outcome::closed};
    const std::size_t first = std::min(bytes, head.size());
    if (first) std::memcpy(head.data(), bytes_.data() + at_, first);
    if (bytes > first) std::memcpy(body.data(), bytes_.data() + at_ + first, bytes - first);
    at_ += bytes;
    return {Step::Outcome::moved, bytes};
  }

 private:
  const Bytes bytes_;
  const std::size_t chunk_;
  std::size_t at_ = 0;
};

// Receives messages and encodes them again. Gives memory of its own for every other payload.
class Again final : public Receiver {
 public:
  void connected(Peer, const std::string&) override { want(false, "a connection"); }
  void disconnected(Peer, const std::string&) override { want(false, "an end"); }
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t bytes) override {
    want(bytes > 0 && bytes <= kLimits.payload, "a payload's length");
    if (++payloads_ % 2) return {};
    memory_.assign(bytes, std::byte{0});
    return memory_;
  }
  void received(Peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    want(head.size() <= kLimits.head && payload.size() <= kLimits.payload, "a message's length");
    append(seen, frame_of(head, payload));
    ++messages;
  }
  Bytes seen;
  int messages = 0;

 private:
  int payloads_ = 0;
  Bytes memory_;
};

// Corrects the checksums of all preambles in the stream, so that mutated inputs reach the code behind the
// check.
void seal(Bytes& stream) {
  for (std::size_t at = 0; at + kPreambleBytes <= stream.size();) {
    std::uint32_t head = 0;
    std::uint64_t payload = 0;
    std::memcpy(&head, stream.data() + at + 8, sizeof head);
    std::memcpy(&payload, stream.data() + at + 16, sizeof payload);
    const Input rest = Input(stream).subspan(at + kPreambleBytes);
    if (head > rest.size() || payload > rest.size() - head) return;
    const WirePreamble wire = encode(preamble_of(rest.first(head), rest.subspan(head, payload)));
    std::copy(wire.begin(), wire.end(), stream.begin() + static_cast<std::ptrdiff_t>(at));
    at += kPreambleBytes + head + payload;
  }
}

bool run_stream(Input input) {
  Source source(input);
  const bool sealed = source.below(2) == 1;
  const std::size_t chunk = std::size_t{1} << source.below(14);
  Bytes bytes(source.rest().begin(), source.rest().end());
  if (sealed) seal(bytes);
  Again again;
  MessageReceiver receiver(kLimits, again, 1);
  Stream stream(bytes, chunk);
  const bool gone = false;
  try {
    while (!receiver.receive(stream, true, gone).closed) continue;
  } catch (const CommError&) {  // the stream is malformed
  }
  want(again.seen.size() <= bytes.size() && std::equal(again.seen.begin(), again.seen.end(), bytes.begin()),
       "messages that nobody has sent");
  return again.messages > 0;
}

std::vector<Bytes> stream_seeds() {
  std::vector<Bytes> all;
  for (const int chunk : {0, 5, 13}) {
    Bytes one{std::byte{1}, static_cast<std::byte>(chunk)};
    append(one, frame_of(bytes_from("first"), {}));
    append(one, frame_of(bytes_from("second"), bytes_from("with a payload")));
    append(one, frame_of({}, Bytes(1500, std::byte{7})));
    append(one, frame_of(Bytes(900), bytes_from("the last")));
    all.push_back(one);
  }
  return all;
}

// --- handshakes

// Runs the handshake over TCP, after TLS: the input is the hello of a client or of a server.
bool run_handshake(Input input) {
  Source source(input);
  const auto side = source.below(2) ? Handshake::Side::client : Handshake::Side::server;
  const std::size_t chunk = std::size_t{1} + source.below(20);
  Bytes bytes(source.rest().begin(), source.rest().end());
  for (const bool sealed : {false, true}) {
    if (sealed && bytes.size() >= 16) {
      const std::uint32_t sum = checksum(Input(bytes).first(12));
      std::memcpy(bytes.data() + 12, &sum, sizeof sum);
    }
    Handshake handshake(side, false, false);
    std::unique_ptr<net_detail::Connection> connection = std::make_unique<Stream>(bytes, chunk);
    try {
      while (!handshake.step(connection)) continue;
      want(!handshake.shares_memory(), "memory shared over TCP");
      return true;
    } catch (const CommError&) {
    }
  }
  return false;
}

std::vector<Bytes> handshake_seeds() {
  Bytes hello = bytes_from("HDKH");
  hello.push_back(std::byte{1});
  hello.resize(12);
  append_value(hello, checksum(hello));
  std::vector<Bytes> all;
  for (const int side : {0, 1}) {
    Bytes one{static_cast<std::byte>(side), std::byte{15}};
    append(one, hello);
    all.push_back(one);
  }
  return all;
}

}  // namespace

const Target kFrames{"frame", run_frame, frame_seeds, 1};
const Target kStreams{"stream", run_stream, stream_seeds, 2};
const Target kHandshakes{"handshake", run_handshake, handshake_seeds, 1};

}  // namespace heddle::fuzz
