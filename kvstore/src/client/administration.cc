#include "wire/administration.h"

#include <optional>
#include <utility>

#include <heddle/administration.h>
#include <heddle/store_error.h>

#include "transport/transport.h"

namespace heddle {
namespace {

using namespace kv_detail;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostText = 16 << 20;  // most bytes of a status text
constexpr std::chrono::milliseconds kAdministrationPoll{100};

// Sends one request to a server, on a connection of its own.
class Administrator final : public Receiver {
 public:
  Administrator(const AdministrationOptions& options, const AdminRequest& wish)
      : options_(options), request_(wish), transport_(make_transport(transport_options(options), *this)) {}

  std::string ask() {
    const auto end = Clock::now() + options_.timeout;
    transport_->connect(options_.server);
    while (!over_ && !failure_) {
      if (Clock::now() >= end) refuse("it has not answered in time");
      transport_->poll(kAdministrationPoll);
    }
    if (failure_) refuse(*failure_);
    return std::move(text_);
  }

 private:
  static TransportOptions transport_options(const AdministrationOptions& options) {
    TransportOptions result{.kind = options.transport, .keys = options.keys};
    result.encrypt_loopback = options.encrypt_loopback;
    result.max_payload = 0;
    return result;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw StoreError("the server at " + options_.server + ": " + why);
  }

  void connected(Peer peer, const std::string&) override { transport_->send(peer, {encode(request_)}); }
  void disconnected(Peer, const std::string& why) override {
    if (!over_ && !failure_) failure_ = why;
  }
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer, std::span<const std::byte> head, std::span<std::byte>) override {
    const AdminAnswer answer = decode_admin_answer(head);
    if (answer.outcome == AdminAnswer::Outcome::refused) failure_ = answer.text;
    if (answer.outcome == AdminAnswer::Outcome::done) over_ = true;
    if (answer.outcome != AdminAnswer::Outcome::part) return;
    if (text_.size() + answer.text.size() > kMostText) throw MalformedMessage("a status without an end");
    text_ += answer.text;
  }

  const AdministrationOptions& options_;
  const AdminRequest request_;
  std::string text_{};
  std::optional<std::string> failure_{};
  bool over_ = false;
  std::unique_ptr<Transport> transport_;  // the last member: destroyed first, since it calls this object
};

std::string ask(const AdministrationOptions& options, AdminRequest::What what) {
  return Administrator(options, {.what = what}).ask();
}

}  // namespace

std::string ask_server_status(const AdministrationOptions& options) {
  return ask(options, AdminRequest::What::status);
}

void ask_server_to_drain(const AdministrationOptions& options) { ask(options, AdminRequest::What::drain); }

}  // namespace heddle
