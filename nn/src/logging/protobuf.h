// Messages in the wire format of Protocol Buffers, written field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle::nn_detail {

class Protobuf {
 public:
  Protobuf& integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Protobuf& real(int field, double value) {
    key(field, 1);
    raw(&value, sizeof value);
    return *this;
  }
  Protobuf& real32(int field, float value) {
    key(field, 5);
    raw(&value, sizeof value);
    return *this;
  }
  Protobuf& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Protobuf& message(int field, const Protobuf& value) { return bytes(field, value.bytes_); }
  Protobuf& packed(int field, std::span<const double> values) {
    return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  const std::string& text() const { return bytes_; }

 private:
  void key(int field, int type) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  // Numbers are little-endian, as all machines are that Heddle runs on.
  void raw(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  std::string bytes_;
};

}  // namespace heddle::nn_detail
