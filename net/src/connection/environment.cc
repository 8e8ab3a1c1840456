#include "connection/environment.h"

#include <cstdlib>

#include <heddle/error.h>

namespace heddle::net_detail {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool flag_of(const char* name) {
  const std::string text = variable(name);
  if (text.empty() || text == "0" || text == "off") return false;
  if (text == "1" || text == "on") return true;
  throw InvalidArgument(std::string(name) + " is '" + text + "'; want 1 or 0");
}

}  // namespace heddle::net_detail
