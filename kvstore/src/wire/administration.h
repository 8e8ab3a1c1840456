// Messages between a server and an administrator. The administrator connects, sends a request, and gets
// answers up to one that says done or refused. The server checks that the administrator's key has the role
// admin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/bytes.h"
#include "wire/protocol.h"

namespace heddle::kv_detail {

using namespace net_detail;

// The first byte of a message. Messages of messages.h, replication.h and membership.h have other first bytes,
// so a server can tell an administrator's message from a worker's.
enum class AdminKind : std::uint8_t { wish = 192, answer };

// The request of an administrator.
struct AdminRequest {
  enum class What : std::uint8_t {
    status = 1,  // answered with parts of a text, then done
    drain        // answered with done, once the server has begun to drain
  };
  std::uint16_t oldest = kOldestProtocol, newest = kProtocol;
  What what = What::status;

  static void fields(auto& archive, auto& self) {
    archive(self.oldest, self.newest, self.what);
    archive.open_end(self.newest > kProtocol);
  }
  void check() const;
};

constexpr std::size_t kMaxAdminText = 32 << 10;

struct AdminAnswer {
  enum class Outcome : std::uint8_t { part = 1, done, refused };
  std::uint16_t protocol = kProtocol;  // version of this message
  Outcome outcome = Outcome::done;
  std::string text{};  // of at most kMaxAdminText bytes. part: a piece of the status. refused: the reason

  static void fields(auto& archive, auto& self) {
    archive(self.protocol, self.outcome);
    archive.cut_text(self.text, kMaxAdminText);
  }
  void check() const;
};

std::vector<std::byte> encode(const AdminRequest& wish);
std::vector<std::byte> encode(const AdminAnswer& answer);
bool is_admin_message(std::span<const std::byte> head);
// decode_admin_request() and decode_admin_answer() throw MalformedMessage. An answer may be of this protocol
// version or an older one.
AdminRequest decode_admin_request(std::span<const std::byte> head);
AdminAnswer decode_admin_answer(std::span<const std::byte> head);

}  // namespace heddle::kv_detail
