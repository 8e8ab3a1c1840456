#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>

#include <heddle/error.h>
#include <heddle/key.h>

namespace heddle {
namespace {

constexpr std::size_t kLongest = 1000;

bool is_control(char one) {
  const auto byte = static_cast<unsigned char>(one);
  return byte < 0x20 || byte == 0x7f;
}

// Names are never removed, so that keys can be compared by address; the set outlives all static objects that have keys.
const std::string* the_one(std::string_view name) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string, std::less<>>;
  const std::lock_guard guard(mutex);
  const auto found = names.find(name);
  return found != names.end() ? &*found : &*names.emplace(name).first;
}

}  // namespace

Key::Key(std::string_view name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && std::to_string(number) == name) {
    number_ = number;
    return;
  }
  if (name.empty()) throw InvalidArgument("a key without a name");
  if (name.size() > kLongest) {
    throw InvalidArgument("a key of " + std::to_string(name.size()) + " bytes; a name has at most " +
                          std::to_string(kLongest));
  }
  if (std::any_of(name.begin(), name.end(), is_control))
    throw InvalidArgument("a key with control characters in its name");
  name_ = the_one(name);
}

void Key::refuse(std::uint64_t number) {
  throw InvalidArgument("key " + std::to_string(number) + " is too large: numbers are int64");
}

}  // namespace heddle
