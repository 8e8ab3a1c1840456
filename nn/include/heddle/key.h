// Key: the number or name under which a store keeps a value, and an optimizer the state of a weight.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// A number or a name. A name that is a whole number, as "5", is that number: what is written as text, in a checkpoint or on
// the wire, is the same key when it is read. Names are 1 to 1,000 bytes without control characters, or InvalidArgument is
// thrown; each name that was ever used is kept for the life of the process. Cheap to copy.
class Key {
 public:
  Key() = default;  // the number 0
  template <std::integral Number>
  requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) Key(Number number)
      : number_(checked(number)) {}
  Key(std::string_view name);
  Key(const std::string& name) : Key(std::string_view(name)) {}
  Key(const char* name) : Key(std::string_view(name)) {}

  bool is_number() const { return name_ == nullptr; }
  std::int64_t number() const { return number_; }  // 0 for a name
  std::string text() const { return name_ ? *name_ : std::to_string(number_); }

  // Numbers come before names. The order of names is that of their bytes.
  friend bool operator==(const Key& a, const Key& b) { return a.number_ == b.number_ && a.name_ == b.name_; }
  friend std::strong_ordering operator<=>(const Key& a, const Key& b) {
    if (a.name_ == b.name_) return a.number_ <=> b.number_;
    if (!a.name_ || !b.name_) return a.name_ ? std::strong_ordering::greater : std::strong_ordering::less;
    return a.name_->compare(*b.name_) <=> 0;
  }

 private:
  template <std::integral Number> static std::int64_t checked(Number number) {
    if constexpr (std::unsigned_integral<Number> && sizeof(Number) == sizeof(std::int64_t)) {
      if (number > static_cast<Number>(INT64_MAX)) refuse(number);
    }
    return static_cast<std::int64_t>(number);
  }
  [[noreturn]] static void refuse(std::uint64_t number);  // throws InvalidArgument

  std::int64_t number_ = 0;
  const std::string* name_ = nullptr;  // the only string with this text
};

}  // namespace heddle
