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

// Size of the state for values of this dtype; 0 if the rule keeps no state, or refuses weights of this dtype.
StateSize state_size(const UpdateRule& rule, DType dtype);

class StateSizes {
 public:
  const StateSize& of(const UpdateRule& rule, DType dtype) {
    const auto [entry, made] = all_.try_emplace(dtype);
    if (made) entry->second = state_size(rule, dtype);
    return entry->second;
  }
  void clear() { all_.clear(); }  // to be called when the update rule has changed

 private:
  std::map<DType, StateSize> all_{};
};

// Bytes that an optimizer may keep for each row of a matrix whose rows were pushed, for the row's count of
// updates.
constexpr std::uint64_t kRowCountBytes = sizeof(std::int64_t);

}  // namespace heddle::kv_detail
