// Permissions to administrate a server, and the server's answers.
#include "wire/administration.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/administration.h>
#include <heddle/store_error.h>

#include "core_host.h"
#include "dist_job.h"
#include "key_directory.h"
#include "message_of.h"
#include "server/server_node.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A server on loopback that requires keys, with its log.
struct Administrated {
  explicit Administrated(const char* transport, const KeyDirectory* keys = nullptr, int protocol = 0)
      : running(options(transport, keys, protocol)) {}

  ServerOptions options(const char* transport, const KeyDirectory* keys, int protocol) {
    ServerOptions made{.transport = transport, .protocol = protocol};
    if (keys) made.keys = keys->directory.path, made.encrypt_loopback = true;
    made.log = [this](const ServerEvent& event) {
      const std::lock_guard guard(mutex);
      log.push_back(event);
    };
    made.status = [](const ServerStats& stats) {
      return "of " + std::to_string(stats.servers) + " " + std::string(100'000, '.');
    };
    return made;
  }
  // The value of the last field of the first logged event of that name; empty if no such event is logged. The
  // server logs events after it has sent the answers they tell of, but before it answers stats().
  std::string why(const std::string& event) {
    running.server.stats();
    const std::lock_guard guard(mutex);
    for (const ServerEvent& one : log) {
      if (one.name == event) return one.fields.back().second;
    }
    return "";
  }
  AdministrationOptions with(const KeyDirectory* keys, const char* transport) const {
    AdministrationOptions made{.server = running.server.address(), .transport = transport};
    if (keys) made.keys = keys->directory.path, made.encrypt_loopback = true;
    made.timeout = std::chrono::seconds(20);
    return made;
  }

  std::mutex mutex;  // guards log
  std::vector<ServerEvent> log;
  Running running;
};

// A transport that only records the heads of the messages sent.
class Sent final : public Transport {
 public:
  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string&) override { return 99; }
  void send(Peer, Message message) override { all.push_back(std::move(message.head)); }
  std::size_t queued(Peer) const override { return unread; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  std::vector<Bytes> all;
  std::size_t unread = 0;
};

}  // namespace

TEST_CASE("administration: a key without the role is refused, one with it asks and drains") {
  for (const char* const transport : kTransports) {
    CAPTURE(std::string(transport));
    const KeyDirectory of_server, of_admin;
    of_admin.allow(of_server, "roles:server");
    of_server.allow(of_admin, "roles:worker,server");
    {
      Administrated server(transport, &of_server);
      for (const auto ask : {+[](const AdministrationOptions& one) { ask_server_to_drain(one); },
                             +[](const AdministrationOptions& one) { ask_server_status(one); }}) {
        const std::string why = message_of<StoreError>([&] { ask(server.with(&of_admin, transport)); });
        CHECK(holds(why, server.running.server.address() + ": its key "));
        CHECK(holds(why, " lacks the role admin in comm.allowed"));
      }
      CHECK(holds(server.why("administrator_refused"), " lacks the role admin in comm.allowed"));
      CHECK_FALSE(server.running.server.is_draining());
    }
    of_server.allow(of_admin, "roles:admin");
    Administrated server(transport, &of_server);
    const std::string status = ask_server_status(server.with(&of_admin, transport));
    CHECK(status == "of 1 " + std::string(100'000, '.'));  // the status is longer than one message
    ask_server_to_drain(server.with(&of_admin, transport));
    CHECK(server.running.server.is_draining());
    CHECK(server.why("administrator_refused").empty());
  }
}

TEST_CASE(
    "administration: within a host a process of the same user needs no key; workers stay until they leave") {
  for (const char* const transport : kTransports) {
    for (const int protocol : {static_cast<int>(kOldestProtocol), 0}) {
      CAPTURE(std::string(transport));
      CAPTURE(protocol);
      Administrated server(transport, nullptr, protocol);
      ClientOptions options;
      options.servers = {server.running.server.address()};
      options.transport.kind = transport;
      Client worker(options);
      worker.call(0, {.request = {.kind = Kind::barrier}});
      CHECK(holds(ask_server_status(server.with(nullptr, transport)), "of 1 "));
      ask_server_to_drain(server.with(nullptr, transport));
      CHECK(server.running.server.is_draining());
      // A server that drains still serves the job that has begun.
      worker.call(0, {.request = {.kind = Kind::barrier}});
      options.job = "another";
      Client late(options);
      CHECK(holds(message_of<StoreError>([&] { late.call(0, {.request = {.kind = Kind::barrier}}); }),
                  "draining"));
      worker.leave(std::chrono::seconds(20));
    }
  }
}

TEST_CASE("administration: nobody there, and a server that answers nothing, are errors within the timeout") {
  AdministrationOptions options{.server = "127.0.0.1:1"};
  CHECK(holds(message_of<StoreError>([&] { ask_server_status(options); }), "the server at 127.0.0.1:1: "));
  options.server = "nothing";
  CHECK_THROWS_AS(ask_server_status(options), InvalidArgument);
}

TEST_CASE("administration: a server refuses versions that it does not speak, and who does not read") {
  const Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(const_cast<Engine&>(engine));
  Sent sent;
  ServerNode node({}, 42, sent, {});
  node.connected(1, "", {});
  node.received(1, encode(AdminRequest{.oldest = kProtocol + 1, .newest = kProtocol + 1}), {}, {});
  AdminAnswer answer = decode_admin_answer(sent.all.at(0));
  CHECK(answer.outcome == AdminAnswer::Outcome::refused);
  CHECK(holds(answer.text, "the administrator speaks versions"));
  sent.unread = 1;
  node.received(1, encode(AdminRequest{}), {}, {});
  answer = decode_admin_answer(sent.all.at(1));
  CHECK(answer.text == "it has not read the answer before");
  CHECK(node.take_admin_requests().empty());
  sent.unread = 0;
  node.received(1, encode(AdminRequest{.what = AdminRequest::What::drain}), {}, {});
  CHECK(node.take_admin_requests() == std::vector{std::pair(Peer{1}, AdminRequest::What::drain)});
  CHECK(sent.all.size() == 2);  // no third answer: the drain request is for the node's owner to answer
  CHECK_THROWS_AS(node.received(1, encode(AdminAnswer{}), {}, {}), MalformedMessage);
}

TEST_CASE("administration: messages are what was written, and bytes that are none are refused") {
  const Bytes wish = encode(AdminRequest{.what = AdminRequest::What::drain});
  CHECK(decode_admin_request(wish).what == AdminRequest::What::drain);
  CHECK(is_admin_message(wish));
  CHECK_FALSE(is_admin_message({}));
  for (const std::uint8_t what : {std::uint8_t{0}, std::uint8_t{3}}) {
    Bytes bad = wish;
    bad.back() = static_cast<std::byte>(what);
    CHECK_THROWS_AS(decode_admin_request(bad), MalformedMessage);
  }
  Bytes longer = wish;
  longer.push_back({});
  CHECK_THROWS_AS(decode_admin_request(longer), MalformedMessage);
  CHECK_THROWS_AS(decode_admin_request(std::span(wish).first(3)), MalformedMessage);
  AdminAnswer said{.outcome = AdminAnswer::Outcome::part, .text = "text"};
  CHECK(decode_admin_answer(encode(said)).text == "text");
  CHECK_THROWS_AS(decode_admin_answer(wish), MalformedMessage);
}
