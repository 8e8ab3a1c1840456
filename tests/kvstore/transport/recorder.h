// Test messages, and a receiver that records events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace heddle::test {

inline std::vector<std::byte> bytes_from(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::string text_from(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes of a message, which depend on the seed and the place in the message.
inline std::string pattern(std::size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  std::uint32_t state = seed * 2654435761u + 1;
  for (char& c : text) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

inline net_detail::Message message_from(const std::string& head, const std::string& payload = "",
                                        int priority = 0) {
  const auto owner = std::make_shared<const std::string>(payload);
  return {bytes_from(head), {owner, std::as_bytes(std::span(*owner))}, priority};
}

struct Seen {
  enum class What { connected, disconnected, received };
  What what;
  net_detail::Peer peer;
  std::string text;  // the key of a connected peer, the reason of a disconnection, or the head of a message
  std::string payload{};
};

// Records the events of a transport. If on_connected and on_received are set, calls them for each event.
class Recorder : public net_detail::Receiver {
 public:
  void connected(net_detail::Peer peer, const std::string& key) override {
    seen.push_back({Seen::What::connected, peer, key});
    if (on_connected) on_connected(peer);
  }
  void disconnected(net_detail::Peer peer, const std::string& why) override {
    seen.push_back({Seen::What::disconnected, peer, why});
  }
  std::span<std::byte> memory_for(net_detail::Peer peer, std::span<const std::byte> head,
                                  std::size_t bytes) override {
    return on_memory_for ? on_memory_for(peer, text_from(head), bytes) : std::span<std::byte>{};
  }
  void received(net_detail::Peer peer, std::span<const std::byte> head,
                std::span<std::byte> payload) override {
    last_payload = payload;
    seen.push_back({Seen::What::received, peer, text_from(head), text_from(payload)});
    if (on_received) on_received(peer, seen.back());
  }

  std::vector<Seen> all(Seen::What what) const {
    std::vector<Seen> some;
    for (const Seen& one : seen) {
      if (one.what == what) some.push_back(one);
    }
    return some;
  }
  std::size_t count(Seen::What what) const {
    return static_cast<std::size_t>(
        std::count_if(seen.begin(), seen.end(), [&](const Seen& one) { return one.what == what; }));
  }
  std::vector<Seen> received() const { return all(Seen::What::received); }
  std::vector<Seen> connected() const { return all(Seen::What::connected); }
  std::vector<Seen> disconnected() const { return all(Seen::What::disconnected); }

  std::vector<Seen> seen;
  std::span<std::byte> last_payload;
  std::function<void(net_detail::Peer)> on_connected;
  std::function<std::span<std::byte>(net_detail::Peer, const std::string&, std::size_t)> on_memory_for;
  std::function<void(net_detail::Peer, const Seen&)> on_received;
};

}  // namespace heddle::test
