// When a worker declares a server lost, and workers that have left their job.
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/log.h>
#include <heddle/store_error.h>

#include "client/client.h"
#include "files.h"
#include "message_of.h"
#include "server/recording_server.h"

using namespace heddle;
using namespace heddle::kv_detail;
using heddle::test::message_of;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Accepts workers. Closes each connection after 30 ms, except those that begin when the time `restless` has
// passed.
class RestlessServer final : Receiver {
 public:
  // `says`: the text of the server's answers to pings; a text is the answer of a server where no request
  // progresses.
  RestlessServer(bool answers, Clock::duration restless, std::string says = "")
      : answers_(answers),
        says_(std::move(says)),
        rests_at_(Clock::now() + restless),
        transport_(make_transport({}, *this)),
        address(transport_->listen("127.0.0.1:0")),
        thread_([this] { serve(); }) {}
  ~RestlessServer() override {
    stopping_.store(true);
    transport_->wake();
    thread_.join();
  }

 private:
  void connected(Peer, const std::string&) override {}
  void disconnected(Peer peer, const std::string&) override { since_.erase(peer); }
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    const auto message = decode_from_worker(head, payload.size());
    if (std::get_if<Hello>(&message)) {
      since_[peer] = Clock::now();
      return transport_->send(peer, {encode(Welcome{.incarnation = 1})});
    }
    const auto& request = std::get<Request>(message);
    const bool rests = Clock::now() >= rests_at_;
    if (rests || (answers_ && request.kind == Kind::ping))
      transport_->send(peer, {encode(Reply{.kind = Kind::done, .number = request.number, .text = says_})});
  }
  void serve() {
    while (!stopping_.load()) {
      transport_->poll(1ms);
      const auto now = Clock::now();
      std::vector<Peer> old;
      for (const auto& [peer, since] : since_) {
        if (since < rests_at_ && now - since > 30ms) old.push_back(peer);
      }
      for (const Peer peer : old) since_.erase(peer), transport_->close(peer);
    }
  }

  const bool answers_;
  const std::string says_;
  const Clock::time_point rests_at_;
  std::map<Peer, Clock::time_point> since_;
  std::unique_ptr<Transport> transport_;
  std::atomic<bool> stopping_{false};

 public:
  const std::string address;

 private:
  std::thread thread_;
};

}  // namespace

// RestlessServer behaves like servers that are restarted one after another for longer than the client's
// timeout.
TEST_CASE("client: a server whose connections end soon is there as long as it answers on each") {
  const RestlessServer server(true, 3500ms);
  Client client({.servers = {server.address}, .timeout = 1500ms});
  CHECK(client.call(0, {.request = {.kind = Kind::barrier}}).kind == Kind::done);
  CHECK_FALSE(client.has_failed());
}

TEST_CASE("client: a server that lets the worker in and ends the connection each time is lost") {
  const RestlessServer server(false, 1h);
  Client client({.servers = {server.address}, .timeout = 500ms});
  CHECK_THROWS_AS(client.call(0, {.request = {.kind = Kind::barrier}}), StoreError);
}

TEST_CASE("client: what this host can never do fails at once, for whatever time it would be tried") {
  const test::TemporaryDirectory empty;
  const auto options = [&](const std::string& kind) {
    ClientOptions result{.transport = {.kind = kind}, .timeout = 1h};
    result.transport.keys = empty.path.string();
    return result;
  };
  for (const std::string kind : {"net", "zmq"}) {
    CAPTURE(kind);
    for (const auto& [address, why] :
         // No host has this address; connecting needs keys, and there are none.
         {std::pair("192.0.2.1:1", "heddle keygen"), std::pair("127.0.0.1.1:1", "is no host"),
          std::pair("[fe80::1%none]:1", "is no host")}) {
      CAPTURE(address);
      ClientOptions direct = options(kind), scheduled = options(kind);
      direct.servers = {address};
      Client client(direct);
      CHECK(
          holds(message_of<StoreError>([&] { client.call(0, {.request = {.kind = Kind::barrier}}); }), why));
      CHECK(client.has_failed());
      scheduled.scheduler = address;
      CHECK(holds(message_of<StoreError>([&] { Client one(scheduled); }), why));
    }
  }
}

TEST_CASE("client: who has left its job begins none of that name again") {
  test::RecordingServer server;
  Client client({.servers = {server.address}});
  client.call(0, {.request = {.kind = Kind::barrier}});
  client.leave(60s);
  CHECK_THROWS_WITH_AS(client.call(0, {.request = {.kind = Kind::barrier}}),
                       "server 0: this worker has left its job", StoreError);
  CHECK_FALSE(client.has_failed());
}

TEST_CASE("client: what a server says of workers that wait for each other is logged by those that wait") {
  std::promise<std::string> said;
  std::atomic<bool> first{true};
  set_log([&](std::string_view text) {
    if (first.exchange(false)) said.set_value(std::string(text));
  });
  {
    const RestlessServer server(true, 0s, "worker 0 waits for a push of key a by worker 1");
    Client client({.servers = {server.address}});
    CHECK(said.get_future().get() ==
          "KVStore: server 0 has not heard of anything new: worker 0 waits for a push of key a by worker 1");
  }
  set_log({});
}
