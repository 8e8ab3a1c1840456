// Size of the state that an optimizer will keep for a value, before it keeps any.
#pragma once

#include <cstdint>
#include <map>

#include <heddle/dtype.h>

#include "stores/update_rule.h"

namespace heddle::kv_detail {

struct StateSize {
  std::uint64_t of_element = 0, of_value = 0;
  std::uint64_t bytes(std::int64_t elements) const {
    return of_value + of_element * static_cast<std::uint64_t>(elements);
  }
};

// 0 if the rule keeps no state, or refuses weights of this type.
StateSize state_size(const UpdateRule& rule, DType dtype);

class StateSizes {
 public:
  const StateSize& of(const UpdateRule& rule, DType dtype) {
    const auto [entry, made] = all_.try_emplace(dtype);
    if (made) entry->second = state_size(rule, dtype);
    return entry->second;
  }
  void clear() { all_.clear(); }  // to be called when the rule has changed

 private:
  std::map<DType, StateSize> all_{};
};

// Bytes per row of the counts of updates that an optimizer may keep for a matrix whose rows were pushed.
constexpr std::uint64_t kRowCountBytes = sizeof(std::int64_t);

}  // namespace heddle::kv_detail
