#include "bootstrap/host_id.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <unistd.h>

#include <heddle/comm_error.h>

#include "connection/environment.h"
#include "connection/socket.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

constexpr std::size_t kLongestName = 64;

std::string kernel() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, id);
  return id;
}

// The namespace of this kind that the process is in; empty if /proc does not tell.
std::string namespace_of(const std::string& kind) {
  char space[64] = {};
  return readlink(("/proc/self/ns/" + kind).c_str(), space, sizeof space - 1) > 0 ? space : "";
}

}  // namespace

std::string memory_domain() {
  const std::string name = variable("HEDDLE_COMM_HOST");
  const bool printable =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isgraph(c); });
  if (!printable || name.size() > kLongestName) {
    throw InvalidArgument("HEDDLE_COMM_HOST is '" + name +
                          "'; want a name of 64 characters at most, without spaces");
  }
  return kernel() + "/" + namespace_of("pid") + "/" + std::to_string(getuid()) + "/" + name;
}

std::string network_domain() { return kernel() + "/" + namespace_of("net"); }

}  // namespace heddle::comm_detail
