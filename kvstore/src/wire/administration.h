// The messages between a server and who administrates it. An administrator connects, says what it wants, and gets answers of
// which the last one says that it is. Whether its key may do that is up to the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wire/bytes.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

// No number of messages.h, replication.h or membership.h: the first byte of a message tells who speaks.
enum class AdminKind : std::uint8_t { wish = 192, answer };

struct AdminWish {
  enum class What : std::uint8_t {
    status = 1,  // parts of a text, then done
    drain        // done: the server has begun to drain
  };
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  What what = What::status;
};

struct AdminAnswer {
  enum class Outcome : std::uint8_t { part = 1, done, refused };
  std::uint16_t protocol = kProtocol;  // of the answer
  Outcome outcome = Outcome::done;
  std::string text{};  // at most kMaxAdminText bytes. part: of the status. refused: why
};
constexpr std::size_t kMaxAdminText = 32 << 10;

std::vector<std::byte> encode(const AdminWish& wish);
std::vector<std::byte> encode(const AdminAnswer& answer);
bool is_admin_message(std::span<const std::byte> head);
AdminWish decode_admin_wish(std::span<const std::byte> head);      // this and the next throw MalformedMessage
AdminAnswer decode_admin_answer(std::span<const std::byte> head);  // of this version or an older one

}  // namespace heddle::kv_detail
