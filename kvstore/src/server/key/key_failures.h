// The error of a key, and the errors of pushes of the key that were lost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace heddle::kv_detail {

// All pushes and pulls of the key fail with the key's error until any worker calls clear_errors. Those of a
// worker whose push was lost fail until this worker calls clear_errors, since it may not have seen the error
// yet.
struct KeyFailures {
  using Why = std::shared_ptr<const std::string>;

  bool any() const { return why != nullptr; }
  bool has(std::uint32_t rank) const { return why || of_pushes.contains(rank); }
  // The error for pushes and pulls of this worker; empty: none.
  std::string text(std::uint32_t rank) const {
    if (why) return *why;
    const auto own = of_pushes.find(rank);
    return own == of_pushes.end() ? std::string() : *own->second;
  }
  void set(const std::string& text) { why = std::make_shared<const std::string>(text); }
  void push_failed(std::uint32_t rank) {
    if (why) of_pushes[rank] = why;
  }

  Why why{};                                 // the key's error; null: none
  std::map<std::uint32_t, Why> of_pushes{};  // errors of lost pushes, by the worker's rank
};

}  // namespace heddle::kv_detail
