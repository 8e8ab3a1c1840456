#include "server/start_check.h"

#include <exception>
#include <span>

#include "transport/transport.h"

namespace heddle::tool {
namespace {

struct Nobody final : kv_detail::Receiver {
  void connected(kv_detail::Peer, const std::string&) override {}
  void disconnected(kv_detail::Peer, const std::string&) override {}
  void cannot_connect(kv_detail::Peer, const std::string& why) override { why_not = why; }
  std::span<std::byte> memory_for(kv_detail::Peer, std::span<const std::byte>, std::size_t) override {
    return {};
  }
  void received(kv_detail::Peer, std::span<const std::byte>, std::span<std::byte>) override {}
  std::string why_not{};
};

kv_detail::TransportOptions options_of(const std::string& transport, const std::string& keys) {
  kv_detail::TransportOptions options;
  options.kind = transport;
  options.keys = keys;
  return options;
}

}  // namespace

std::string why_not_served(const std::string& listen, const std::string& transport, const std::string& keys) {
  Nobody nobody;
  try {
    kv_detail::make_transport(options_of(transport, keys), nobody)
        ->listen(listen.substr(0, listen.rfind(':')) + ":0");
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string why_not_reached(const std::string& address, const std::string& transport,
                            const std::string& keys) {
  Nobody nobody;
  try {
    const auto end = kv_detail::make_transport(options_of(transport, keys), nobody);
    end->connect(address);
    end->poll(std::chrono::microseconds(0));
    return nobody.why_not;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace heddle::tool
