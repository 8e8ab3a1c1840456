// Reads event files: frames of records, and fields of messages. Written from the formats' descriptions, not from the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "files.h"

namespace heddle::test {

// The sum of CRC-32C, bit by bit, rotated and added to a constant.
inline std::uint32_t slow_masked_crc(const std::string& data) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : data)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = (crc ^ static_cast<std::uint32_t>(static_cast<unsigned char>(c) >> bit)) & 1;
      crc >>= 1;
      if (odd) crc ^= 0x82f63b78;
    }
  crc ^= 0xffffffff;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

template <class T> T number_at(const std::string& bytes, std::size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

inline std::vector<std::string> records_of(const std::string& path) {
  const std::string file = read_file(path);
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint64_t>(file, at);
    REQUIRE(number_at<std::uint32_t>(file, at + 8) == slow_masked_crc(file.substr(at, 8)));
    const std::string record = file.substr(at + 12, length);
    REQUIRE(record.size() == length);
    REQUIRE(number_at<std::uint32_t>(file, at + 12 + length) == slow_masked_crc(record));
    records.push_back(record);
    at += 16 + length;
  }
  return records;
}

// The fields of a message by number: integers as text of their decimal digits, others as their bytes.
using Fields = std::multimap<int, std::string>;

inline std::uint64_t varint_at(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(at < bytes.size());
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

inline Fields fields_of(const std::string& message) {
  Fields fields;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = varint_at(message, at);
    const int field = static_cast<int>(key >> 3), type = static_cast<int>(key & 7);
    std::size_t size = type == 1 ? 8 : 4;
    if (type == 0) {
      fields.emplace(field, std::to_string(static_cast<std::int64_t>(varint_at(message, at))));
      continue;
    }
    if (type == 2) size = varint_at(message, at);
    REQUIRE(at + size <= message.size());
    fields.emplace(field, message.substr(at, size));
    at += size;
  }
  return fields;
}

inline std::string only(const Fields& fields, int field) {
  REQUIRE(fields.count(field) == 1);
  return fields.find(field)->second;
}

// A value of a summary, with the step of its event.
struct ReadValue {
  std::int64_t step;
  std::string tag;
  Fields fields;
  float scalar() const { return number_at<float>(only(fields, 2), 0); }
};

// The values of all summaries in a file, in order.
inline std::vector<ReadValue> values_of(const std::string& path) {
  std::vector<ReadValue> values;
  const std::vector<std::string> records = records_of(path);
  REQUIRE(!records.empty());
  CHECK(only(fields_of(records[0]), 3) == "brain.Event:2");
  for (std::size_t i = 1; i < records.size(); ++i) {
    const Fields event = fields_of(records[i]);
    CHECK(number_at<double>(only(event, 1), 0) > 1.7e9);
    if (event.count(5) == 0) continue;
    const Fields value = fields_of(only(fields_of(only(event, 5)), 1));
    values.push_back({std::stoll(only(event, 2)), only(value, 1), value});
  }
  return values;
}

}  // namespace heddle::test
