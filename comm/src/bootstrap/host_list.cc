#include "bootstrap/host_list.h"

#include <charconv>
#include <string_view>

namespace heddle::comm_detail {
namespace {

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

// Removes a number from the front of `text` and returns it; -1 if there is none.
long take_number(std::string_view& text) {
  long value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string host;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {
    if (rest.front() == '[') {
      const std::size_t end = rest.find(']');
      if (end == std::string_view::npos) return "";
      const std::string_view inside = rest.substr(1, end - 1);
      const std::string_view number = inside.substr(0, inside.find_first_of(",-"));
      if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return "";
      host += number;
      rest.remove_prefix(end + 1);
    } else if (kNameCharacters.find(rest.front()) != std::string_view::npos) {
      host += rest.front();
      rest.remove_prefix(1);
    } else {
      return "";
    }
  }
  return host;
}

int tasks_of_node(const std::string& list, long node) {
  std::string_view rest = list;
  while (true) {
    const long tasks = take_number(rest);
    long nodes = 1;
    if (take(rest, "(x")) {
      nodes = take_number(rest);
      if (nodes < 1 || !take(rest, ")")) return 0;
    }
    if (tasks < 1 || tasks > 1 << 20) return 0;
    if (node < nodes) return static_cast<int>(tasks);
    node -= nodes;
    if (!take(rest, ",")) return 0;
  }
}

}  // namespace heddle::comm_detail
