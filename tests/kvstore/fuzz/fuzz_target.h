// Fuzz targets: functions that parse bytes of other processes, with valid inputs for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::fuzz {

using Bytes = std::vector<std::byte>;
using Input = std::span<const std::byte>;

struct Target {
  const char* name;
  // Parses an input. Returns true if it, or a part of it, was accepted. Throwing an undocumented error is a
  // bug.
  bool (*run)(Input input);
  std::vector<Bytes> (*seeds)();
  int cost;  // how slow run() is: a short run divides the number of its inputs by this
};

std::span<const Target> targets();

// Ends the process with the message `what` unless `holds`.
void want(bool holds, const char* what);

// Reads values from an input. After the input's end the values are zeros.
class Source {
 public:
  explicit Source(Input input) : rest_(input) {}
  bool empty() const { return rest_.empty(); }
  template <class T> T get() {
    T value{};
    const Input bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::uint8_t below(std::uint8_t bound) { return static_cast<std::uint8_t>(get<std::uint8_t>() % bound); }
  Input take(std::size_t count) {
    const Input first = rest_.first(count < rest_.size() ? count : rest_.size());
    rest_ = rest_.subspan(first.size());
    return first;
  }
  Input rest() const { return rest_; }

 private:
  Input rest_;
};

inline Bytes bytes_from(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
inline std::string text_from(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}
inline void append(Bytes& to, Input more) { to.insert(to.end(), more.begin(), more.end()); }
template <class T> void append_value(Bytes& to, T value) {
  append(to, std::as_bytes(std::span<const T, 1>(&value, 1)));
}

// The targets, with the file that defines them.
extern const Target kFrames, kStreams, kHandshakes;             // transport_targets.cc
extern const Target kFromWorker, kFromServer, kAdministration;  // kTexts and kState too: wire_targets.cc
extern const Target kTexts, kState;
extern const Target kFields;                                       // fields_target.cc
extern const Target kStateStream, kSnapshot, kReplica;             // state_targets.cc
extern const Target kMembers, kScheduler, kSchedulerState, kJson;  // membership_targets.cc
extern const Target kCore;                                         // core_target.cc

}  // namespace heddle::fuzz
