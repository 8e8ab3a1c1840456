// Transports with receivers, for tests that run on every kind of transport.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/comm_keys.h>

#include "files.h"
#include "transport/recorder.h"
#include "transport/transport.h"

namespace heddle::test {

// A transport and the receiver of its events.
struct End {
  Recorder recorder;
  std::unique_ptr<net_detail::Transport> transport;
  explicit End(const net_detail::TransportOptions& options)
      : transport(net_detail::make_transport(options, recorder)) {}
  net_detail::Transport* operator->() const { return transport.get(); }
};

// Polls all transports by turns until `done` returns true. Fails the test after 30 s.
inline void pump(std::initializer_list<End*> ends, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    for (End* end : ends) end->transport->poll(std::chrono::microseconds(100));
    if (std::chrono::steady_clock::now() < deadline) continue;
    for (End* end : ends) {
      for (const Seen& one : end->recorder.disconnected()) MESSAGE("disconnected: ", one.text);
    }
    FAIL("it does not come about");
  }
}

// Runs the test once for each kind of transport, with the options that make it.
template <class Test> void on_every_transport(Test&& test) {
  const TemporaryDirectory keys;
  make_comm_key(keys.path, false);
  const std::pair<std::string, net_detail::TransportOptions> kinds[] = {
      {"net, shared memory", {.kind = "net"}},
      {"net, unix sockets", {.kind = "net", .shared_memory = false}},
      {"net, TLS", {.kind = "net", .keys = keys.path, .encrypt_loopback = true}},
      {"zmq", {.kind = "zmq"}},
      {"zmq, CURVE", {.kind = "zmq", .keys = keys.path, .encrypt_loopback = true}},
  };
  for (const auto& [name, options] : kinds) {
    CAPTURE(name);
    test(options);
  }
}

// A server on loopback, and a connected client.
struct Pair {
  End server, client;
  std::string address;
  net_detail::Peer at_client = 0, at_server = 0;

  explicit Pair(const net_detail::TransportOptions& options) : Pair(options, options) {}
  Pair(const net_detail::TransportOptions& of_server, const net_detail::TransportOptions& of_client)
      : server(of_server), client(of_client), address(server->listen("127.0.0.1:0")) {
    at_client = client->connect(address);
    pump({&server, &client}, [&] {
      return server.recorder.count(Seen::What::connected) == 1 &&
             client.recorder.count(Seen::What::connected) == 1;
    });
    at_server = server.recorder.connected().front().peer;
  }
  void pump_until(const std::function<bool()>& done) { pump({&server, &client}, done); }
};

}  // namespace heddle::test
