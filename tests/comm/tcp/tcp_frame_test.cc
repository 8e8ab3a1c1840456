#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/arguments.h"
#include "connection/socket.h"
#include "tcp/frame.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace heddle::net_detail;
using Outcome = Decoded::Outcome;

namespace {

constexpr Key kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

Decoded decode_text(const std::string& text, const Key& key = kKey) {
  return decode(std::as_bytes(std::span(text)), key);
}

std::vector<std::string> one_of_each() {
  ControlFrame hello{FrameKind::hello, 3, 1, 0, ConnectionUse::data};
  ControlFrame beat{FrameKind::heartbeat, 3, 1, 17};
  ControlFrame leave{FrameKind::leave, 3, 1, 18};
  ControlFrame call{FrameKind::call, 3, 1, 21};
  call.call.kind = Kind::barrier;
  ControlFrame abort{FrameKind::abort, 3, 1, 19};
  abort.failure = {Failure::Type::lost, 2, "rank 2 is lost"};
  ControlFrame survivor{FrameKind::survivor, 3, 1, 20};
  survivor.survivor_message = std::string("of a survivor\0", 14);
  ControlFrame probe{FrameKind::probe, 3, 1, 22};
  probe.probe = {2, 1, 5, 6, "rank 2 waits for rank 1"};
  return {encode(hello, kKey),    encode(beat, kKey), encode(leave, kKey), encode(abort, kKey),
          encode(survivor, kKey), encode(call, kKey), encode(probe, kKey)};
}

std::uint64_t siphash(std::size_t size) {
  std::vector<std::uint8_t> message(size);
  std::iota(message.begin(), message.end(), std::uint8_t{0});
  return seal_of(kKey, std::as_bytes(std::span(message)));
}

// A text that differs from `text`: with a flipped bit, cut off, prefixed or overwritten.
std::string mutated(const std::string& text, std::mt19937& random) {
  std::string result = text;
  const auto any = [&] { return random() % result.size(); };
  switch (random() % 4) {
    case 0:
      result[any()] ^= static_cast<char>(1 << random() % 8);
      break;
    case 1:
      result.resize(any());
      break;
    case 2: {
      const std::uint32_t huge = 0xffffffffu >> random() % 20;
      std::memcpy(result.data() + random() % (result.size() - 4), &huge, sizeof huge);
      break;
    }
    default:
      for (char& c : result) c = static_cast<char>(random());
  }
  return result;
}

}  // namespace

TEST_CASE("the seal is SipHash-2-4: test vectors of its authors") {
  CHECK(siphash(0) == 0x726fdb47dd0e0e31);
  CHECK(siphash(1) == 0x74f839c593dc67fd);
  CHECK(siphash(15) == 0xa129ca6149be45e5);
}

TEST_CASE("a key travels as text") {
  const Key key = random_key(), same = key_from(to_text(key));
  CHECK(same.low == key.low);
  CHECK(same.high == key.high);
  CHECK(to_text(random_key()) != to_text(key));
  for (const char* text :
       {"", "0123", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0"}) {
    CHECK_THROWS_AS(key_from(text), CommError);
  }
}

TEST_CASE("frames read as they were written") {
  const auto frames = one_of_each();
  const Decoded hello = decode_text(frames[0]), abort = decode_text(frames[3] + "more");
  REQUIRE(hello.outcome == Outcome::frame);
  CHECK(hello.frame.kind == FrameKind::hello);
  CHECK(hello.frame.use == ConnectionUse::data);
  CHECK(hello.frame.epoch == 3);
  CHECK(hello.frame.rank == 1);
  REQUIRE(abort.outcome == Outcome::frame);
  CHECK(abort.used == frames[3].size());
  CHECK(abort.frame.number == 19);
  CHECK(abort.frame.failure.type == Failure::Type::lost);
  CHECK(abort.frame.failure.rank == 2);
  CHECK(abort.frame.failure.text == "rank 2 is lost");
  const Decoded probe = decode_text(frames.back());
  REQUIRE(probe.outcome == Outcome::frame);
  CHECK(probe.frame.probe.origin == 2);
  CHECK(probe.frame.probe.to_read == 1);
  CHECK(probe.frame.probe.attempt == 5);
  CHECK(probe.frame.probe.message == 6);
  CHECK(probe.frame.probe.path == "rank 2 waits for rank 1");
}

TEST_CASE("the beginning of a frame is incomplete, and one that nobody with the key has written is invalid") {
  for (const std::string& frame : one_of_each()) {
    for (std::size_t size = 0; size < frame.size(); ++size) {
      CHECK(decode_text(frame.substr(0, size)).outcome == Outcome::incomplete);
    }
    CHECK(decode_text(frame, Key{1, 2}).outcome == Outcome::invalid);
  }
}

TEST_CASE("no frame is longer than a reader's buffer") {
  ControlFrame abort{FrameKind::abort, 3, 1, 19};
  abort.failure = {Failure::Type::aborted, 1, std::string(100'000, 'x')};
  const std::string text = encode(abort, kKey);
  CHECK(text.size() == kMaxFrame);
  CHECK(decode_text(text).outcome == Outcome::frame);
}

// The argument --frames=N makes a long run.
TEST_CASE("hostile frames are not taken for frames") {
  std::mt19937 random(1);
  const auto frames = one_of_each();
  int accepted = 0;
  for (long long i = 0; i < test::argument("frames", 100'000); ++i) {
    const std::string& frame = frames[random() % frames.size()];
    const std::string hostile = mutated(frame, random);
    accepted += hostile != frame && decode_text(hostile).outcome == Outcome::frame;
  }
  CHECK(accepted == 0);
}

TEST_CASE("no bit of a message's header can be changed unseen") {
  MessageHeader header;
  header.bytes = 1000;
  header.number = 5;
  seal(header, kKey);
  CHECK(genuine(header, kKey));
  CHECK_FALSE(genuine(header, Key{1, 2}));
  int accepted = 0;
  for (std::size_t bit = 0; bit < kMessageHeader * 8; ++bit) {
    MessageHeader other = header;
    reinterpret_cast<unsigned char*>(&other)[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    accepted += genuine(other, kKey);
  }
  CHECK(accepted == 0);
}

TEST_CASE("a port that somebody listens on is passed over, or named if there is no other") {
  const Socket taken = listen_on("127.0.0.1", {}, 1);
  const std::uint16_t port = port_of(taken);
  const std::string number = ", port " + std::to_string(port);
  CHECK_THROWS_WITH_AS(listen_on("127.0.0.1", {port, port}, 1), doctest::Contains(number.c_str()), CommError);
  const Socket next = listen_on("127.0.0.1", {port, port + 20}, 1);
  CHECK(port_of(next) > port);
  CHECK_THROWS_AS(listen_on("no address", {}, 1), CommError);
}
