#include "transport/frame.h"

#include <string>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>

#include "message_of.h"
#include "transport/transport_rig.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::test;

namespace {

constexpr FrameLimits kLimits{100, 1000};

std::string complaint(const WirePreamble& wire, const FrameLimits& limits = kLimits) {
  return message_of<CommError>([&] { decode(wire, limits); });
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the checksum is CRC32C") {
  CHECK(checksum(bytes_from("123456789")) == 0xE3069283);
  CHECK(checksum({}) == 0);
  CHECK(checksum(std::vector<std::byte>(32)) == 0x8A9136AA);  // test vectors of RFC 3720, B.4
  CHECK(checksum(std::vector<std::byte>(32, std::byte{0xff})) == 0x62A8AB43);
}

TEST_CASE("a preamble is what it was before it was encoded") {
  const auto head = bytes_from("head"), payload = bytes_from(pattern(1000, 1));
  const Preamble preamble = decode(encode(preamble_of(head, payload)), kLimits);
  CHECK(preamble.head_bytes == 4);
  CHECK(preamble.payload_bytes == 1000);
  CHECK_NOTHROW(check_head(preamble, head));
  CHECK_NOTHROW(check_payload(preamble, payload));
  CHECK_THROWS_AS(check_head(preamble, payload), CommError);
  CHECK_THROWS_AS(check_payload(preamble, head), CommError);
}

TEST_CASE("numbers are little-endian on the wire") {
  const WirePreamble wire = encode({.head_bytes = 0x01020304, .payload_bytes = 0x1122334455667788});
  CHECK(text_from(std::span(wire).first(8)) == std::string("HDKV\1\0\0\0", 8));
  CHECK(text_from(std::span(wire).subspan(8, 4)) == "\4\3\2\1");
  CHECK(text_from(std::span(wire).subspan(16, 8)) == "\x88\x77\x66\x55\x44\x33\x22\x11");
}

TEST_CASE("every bit of a preamble counts") {
  const WirePreamble good = encode(preamble_of(bytes_from("head"), bytes_from("payload")));
  CHECK(complaint(good) == "no error");
  for (std::size_t bit = 0; bit < 8 * kPreambleBytes; ++bit) {
    WirePreamble wire = good;
    wire[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK(holds(complaint(wire), "a broken message"));
  }
}

TEST_CASE("what is announced is compared with the limits") {
  CHECK(complaint(encode({.head_bytes = 100, .payload_bytes = 1000})) == "no error");
  CHECK(
      holds(complaint(encode({.head_bytes = 101})), "its head is announced with 101 bytes; 100 are allowed"));
  CHECK(holds(complaint(encode({.payload_bytes = 1001})), "its payload is announced with 1001 bytes"));
  CHECK(holds(complaint(encode({.payload_bytes = ~0ull})), "18446744073709551615 bytes"));
}
