// Little-endian fields of messages: a writer that appends, and a reader that never reads beyond the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <heddle/error.h>

namespace heddle::net_detail {

static_assert(std::endian::native == std::endian::little);

// Bytes from a peer that are not a valid message.
class MalformedMessage : public Error {
 public:
  using Error::Error;
};

class Writer {
 public:
  Writer() { bytes_.reserve(kUsualBytes); }
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void put(std::span<const std::byte> raw) { bytes_.insert(bytes_.end(), raw.begin(), raw.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  static constexpr std::size_t kUsualBytes = 96;  // size of a usual request or reply, reserved at once

  std::vector<std::byte> bytes_;
};

// Each get throws MalformedMessage if the bytes end too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) T get() {
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  bool get_flag() {
    const auto value = get<std::uint8_t>();
    if (value > 1) throw MalformedMessage("a flag is " + std::to_string(value));
    return value == 1;
  }
  std::string get_text(std::size_t most) {
    const auto length = get<std::uint32_t>();
    if (length > most) throw MalformedMessage("a text of " + std::to_string(length) + " bytes");
    const std::span<const std::byte> text = next(length);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  std::span<const std::byte> get_bytes(std::uint64_t count) { return next(count); }
  std::size_t left() const { return bytes_.size(); }
  void end() const {
    if (left() > 0) throw MalformedMessage(std::to_string(left()) + " bytes after the end of a message");
  }

 private:
  std::span<const std::byte> next(std::uint64_t count) {
    if (count > bytes_.size())
      throw MalformedMessage("a message ends " + std::to_string(count - bytes_.size()) + " bytes too early");
    const std::span<const std::byte> first = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return first;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace heddle::net_detail
