#include "server/start_check.h"

#include <exception>
#include <span>

#include "transport/transport.h"

namespace heddle::tool {
namespace {

struct Nobody final : net_detail::Receiver {
  void connected(net_detail::Peer, const std::string&) override {}
  void disconnected(net_detail::Peer, const std::string&) override {}
  void cannot_connect(net_detail::Peer, const std::string& why) override { why_not = why; }
  std::span<std::byte> memory_for(net_detail::Peer, std::span<const std::byte>, std::size_t) override {
    return {};
  }
  void received(net_detail::Peer, std::span<const std::byte>, std::span<std::byte>) override {}
  std::string why_not{};
};

net_detail::TransportOptions options_of(const std::string& transport, const std::string& keys) {
  net_detail::TransportOptions options;
  options.kind = transport;
  options.keys = keys;
  return options;
}

}  // namespace

std::string why_not_served(const std::string& listen, const std::string& transport, const std::string& keys) {
  Nobody nobody;
  try {
    net_detail::make_transport(options_of(transport, keys), nobody)
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
    const auto end = net_detail::make_transport(options_of(transport, keys), nobody);
    end->connect(address);
    end->poll(std::chrono::microseconds(0));
    return nobody.why_not;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace heddle::tool
