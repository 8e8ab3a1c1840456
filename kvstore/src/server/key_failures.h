// Errors of updates of a key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace heddle::kv_detail {

// Pushes and pulls get the error until somebody's clear_errors. A worker with a push that has come to nothing gets it until its
// own: it may not have seen it yet.
struct KeyFailures {
  using Why = std::shared_ptr<const std::string>;

  bool any() const { return why != nullptr; }
  bool has(std::uint32_t rank) const { return why || of_pushes.contains(rank); }
  std::string text(std::uint32_t rank) const {  // empty: none
    if (why) return *why;
    const auto own = of_pushes.find(rank);
    return own == of_pushes.end() ? std::string() : *own->second;
  }
  void set(const std::string& text) { why = std::make_shared<const std::string>(text); }
  void push_failed(std::uint32_t rank) {
    if (why) of_pushes[rank] = why;
  }

  Why why{};                                 // null: none
  std::map<std::uint32_t, Why> of_pushes{};  // by rank
};

}  // namespace heddle::kv_detail
