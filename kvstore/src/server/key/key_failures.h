// The error of a key, and those of its workers' pushes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace heddle::kv_detail {

// Pushes and pulls fail with the error until a worker calls clear_errors. A worker whose push was lost gets
// the error until its own clear_errors: it may not have seen it yet.
struct KeyFailures {
  using Why = std::shared_ptr<const std::string>;

  bool any() const { return why != nullptr; }
  bool has(std::uint32_t rank) const { return why || of_pushes.contains(rank); }
  std::string text(std::uint32_t rank) const {  // empty: no error
    if (why) return *why;
    const auto own = of_pushes.find(rank);
    return own == of_pushes.end() ? std::string() : *own->second;
  }
  void set(const std::string& text) { why = std::make_shared<const std::string>(text); }
  void push_failed(std::uint32_t rank) {
    if (why) of_pushes[rank] = why;
  }

  Why why{};                                 // the key's error; null: none
  std::map<std::uint32_t, Why> of_pushes{};  // errors of lost pushes, by rank
};

}  // namespace heddle::kv_detail
