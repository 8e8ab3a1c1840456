#include "launcher.h"

#include <cstdlib>
#include <memory>
#include <netdb.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::tool {
namespace {

constexpr const char* kHost = "DMLC_PS_ROOT_URI";

std::string needed(const Lookup& lookup, const char* variable) {
  const std::string value = lookup(variable);
  if (value.empty())
    throw std::runtime_error(std::string(variable) + " is not set, but DMLC_ROLE is '" + lookup("DMLC_ROLE") +
                             "'");
  return value;
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  if (::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  const std::string host = text;
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses addresses_of(const std::string& host) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int wrong = ::getaddrinfo(host.c_str(), "9", &hints, &first);
  if (wrong != 0)
    throw std::runtime_error(std::string(kHost) + ": '" + host + "' is no host: " + ::gai_strerror(wrong));
  return {first, ::freeaddrinfo};
}

// The IP address of this host on the route to `host`. Sends no packet.
std::string address_towards(const std::string& host) {
  const Addresses all = addresses_of(host);
  const int socket = ::socket(all->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage mine{};
  socklen_t length = sizeof mine;
  auto* const address = reinterpret_cast<sockaddr*>(&mine);
  const bool good = socket >= 0 && ::connect(socket, all->ai_addr, all->ai_addrlen) == 0 &&
                    ::getsockname(socket, address, &length) == 0;
  if (socket >= 0) ::close(socket);
  const std::string text = good ? numeric(address, length) : "";
  if (text.empty())
    throw std::runtime_error(std::string(kHost) + ": this host has no address that reaches '" + host +
                             "'; DMLC_NODE_HOST says which one to use");
  return text;
}

std::string root(const Lookup& lookup) {
  const std::string host = needed(lookup, kHost);
  return host + ":" + needed(lookup, "DMLC_PS_ROOT_PORT");
}

// Adds the settings of the variables HEDDLE_STORE_ETCD..., which a launcher sets for the processes of all
// roles.
void add_etcd(const Lookup& lookup, LauncherSettings& result) {
  constexpr std::pair<const char*, const char*> kVariables[] = {{"etcd", "HEDDLE_STORE_ETCD"},
                                                                {"etcd-prefix", "HEDDLE_STORE_ETCD_PREFIX"},
                                                                {"etcd-ca", "HEDDLE_STORE_ETCD_CA"},
                                                                {"etcd-cert", "HEDDLE_STORE_ETCD_CERT"},
                                                                {"etcd-key", "HEDDLE_STORE_ETCD_KEY"}};
  for (const auto& [setting, variable] : kVariables) {
    if (const std::string value = lookup(variable); !value.empty()) result[setting] = {value, variable};
  }
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string launcher_role(const Lookup& lookup) {
  const std::string role = lookup("DMLC_ROLE");
  if (!role.empty() && role != "scheduler" && role != "server" && role != "worker")
    throw std::runtime_error("DMLC_ROLE: '" + role + "': want scheduler, server or worker");
  return role;
}

LauncherSettings launcher_settings_of_server(const Lookup& lookup) {
  LauncherSettings result;
  if (launcher_role(lookup) == "server") {
    result["scheduler"] = {root(lookup), kHost};
    result["servers"] = {needed(lookup, "DMLC_NUM_SERVER"), "DMLC_NUM_SERVER"};
    const std::string host = lookup("DMLC_NODE_HOST"), interface = lookup("DMLC_INTERFACE");
    const std::string port = lookup("DMLC_PORT").empty() ? "0" : lookup("DMLC_PORT");
    if (!host.empty()) {
      result["listen"] = {host + ":" + port, "DMLC_NODE_HOST"};
    } else if (!interface.empty()) {
      result["listen"] = {interface + ":" + port, "DMLC_INTERFACE"};
    } else {
      result["listen"] = {address_towards(needed(lookup, kHost)) + ":" + port, kHost};
    }
    result["metrics"] = {"off", "DMLC_ROLE"};  // servers on one host would all use the default port
  }
  if (const std::string scheduler = lookup("HEDDLE_STORE_SCHEDULER"); !scheduler.empty())
    result["scheduler"] = {scheduler, "HEDDLE_STORE_SCHEDULER"};
  add_etcd(lookup, result);
  // If etcd is set, a server finds the scheduler through etcd, not through DMLC's variables, as workers do.
  if (result.contains("etcd") && lookup("HEDDLE_STORE_SCHEDULER").empty()) result.erase("scheduler");
  if (const std::string transport = lookup("HEDDLE_STORE_TRANSPORT"); !transport.empty())
    result["transport"] = {transport, "HEDDLE_STORE_TRANSPORT"};
  return result;
}

LauncherSettings launcher_settings_of_scheduler(const Lookup& lookup) {
  LauncherSettings result;
  add_etcd(lookup, result);
  if (const std::string transport = lookup("HEDDLE_STORE_TRANSPORT"); !transport.empty())
    result["transport"] = {transport, "HEDDLE_STORE_TRANSPORT"};
  if (launcher_role(lookup) != "scheduler") return result;
  const Addresses all = addresses_of(needed(lookup, kHost));
  const std::string host = numeric(all->ai_addr, all->ai_addrlen);
  result["listen"] = {host + ":" + needed(lookup, "DMLC_PS_ROOT_PORT"), kHost};
  result["servers"] = {needed(lookup, "DMLC_NUM_SERVER"), "DMLC_NUM_SERVER"};
  result["workers"] = {needed(lookup, "DMLC_NUM_WORKER"), "DMLC_NUM_WORKER"};
  result["once"] = {"yes", "DMLC_ROLE"};
  result["metrics"] = {"off", "DMLC_ROLE"};
  return result;
}

}  // namespace heddle::tool
