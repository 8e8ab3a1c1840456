// The fields of messages as little-endian bytes. A struct lists its fields once; archives write and read them:
//
//   struct Hello {
//     std::uint16_t version = 1;
//     std::string name{};
//     std::uint64_t secret = 0;  // from version 2 on
//     static void fields(auto& archive, auto& self) {
//       archive(self.version);
//       archive.text(self.name, kMaxName);
//       if (self.version >= 2) archive(self.secret);
//     }
//     void check() const;  // optional: a Reader calls it after the fields; throws MalformedMessage
//   };
//
// An archive is called with numbers, flags, enums and structs that have fields. Enums are read as they come:
// check() looks at their values. An archive's functions:
//   text(string, most)      the Reader refuses one of more than `most` bytes
//   cut_text(string, most)  the same, but the Writer cuts it
//   list(vector, most, before, after)  the Reader refuses more elements: an error "`before` NUMBER `after`"
//   more(wanted)            whether optional fields follow: for the Reader, whether there are bytes left
//   open_end(open)          if `open`, the sender may have appended fields that this program does not know
//   version()               version of a format, given to the archive
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
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
  explicit Writer(std::uint16_t version = 0) : version_(version) {}
  std::uint16_t version() const { return version_; }
  template <class... Fields> void operator()(const Fields&... fields) { (put(fields), ...); }
  void text(const std::string& text, std::size_t) { cut_text(text, text.size()); }
  void cut_text(const std::string& text, std::size_t most);
  template <class T> void list(const std::vector<T>& values, std::size_t, const char*, const char*) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& one : values) put(one);
  }
  bool more(bool wanted) const { return wanted; }
  void open_end(bool) {}
  void bytes(std::span<const std::byte> raw) { std::copy(raw.begin(), raw.end(), room(raw.size())); }
  std::vector<std::byte> take();

 private:
  template <class T> void put(const T& value) {
    if constexpr (std::is_class_v<T>) {
      T::fields(*this, value);
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      std::memcpy(room(sizeof value), &value, sizeof value);
    }
  }
  // Memory for the next `count` bytes of the message; valid until more is written.
  std::byte* room(std::size_t count) {
    if (count > bytes_.size() - used_) grow(count);
    return bytes_.data() + std::exchange(used_, used_ + count);
  }
  void grow(std::size_t count);
  const std::uint16_t version_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(96);  // enough for a usual request or reply
  std::size_t used_ = 0;                                       // bytes that are written
};

// Reads the fields of a message from its bytes. Throws MalformedMessage if the bytes end too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, std::uint16_t version = 0)
      : version_(version), bytes_(bytes) {}
  std::uint16_t version() const { return version_; }
  template <class... Fields> void operator()(Fields&... fields) { (read(fields), ...); }
  void text(std::string& text, std::size_t most);
  void cut_text(std::string& value, std::size_t most) { text(value, most); }
  template <class T>
  void list(std::vector<T>& values, std::size_t most, const char* before, const char* after) {
    const auto count = get<std::uint32_t>();
    if (count > most) throw MalformedMessage(before + std::to_string(count) + after);
    if (count > left()) ends_early(count - left());  // each element takes one byte at least
    values.resize(count);
    for (T& one : values) read(one);
  }
  bool more(bool) const { return left() > 0; }
  void open_end(bool open) { open_ = open; }
  template <class T> T get() {
    T value{};
    read(value);
    return value;
  }
  // Reads a message that takes all bytes that are left.
  template <class T> T whole() {
    T message = get<T>();
    end();
    return message;
  }
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > left()) ends_early(count - left());
    const std::span<const std::byte> first = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return first;
  }
  std::span<const std::byte> rest() { return bytes(left()); }
  std::size_t left() const { return bytes_.size(); }
  void end() const;  // throws MalformedMessage if there are bytes left, which open_end() did not allow

 private:
  template <class T> void read(T& value) {
    if constexpr (std::is_class_v<T>) {
      T::fields(*this, value);
      if constexpr (requires { value.check(); }) value.check();
    } else if constexpr (std::is_same_v<T, bool>) {
      value = flag();
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
      std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    }
  }
  bool flag();
  [[noreturn]] static void ends_early(std::uint64_t missing);
  const std::uint16_t version_;
  std::span<const std::byte> bytes_;
  bool open_ = false;
};

// The bytes of a message: its kind, then its fields.
template <class Kind, class Message> std::vector<std::byte> written(Kind kind, const Message& message) {
  Writer writer;
  writer(kind, message);
  return writer.take();
}

}  // namespace heddle::net_detail
