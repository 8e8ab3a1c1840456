// The value of a key, and the updates of it by pushes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <heddle/ndarray.h>

#include "server/key/key_optimizer.h"
#include "server/key/push.h"
#include "server/key/row_lists.h"
#include "server/key/stored_value.h"

namespace heddle::kv_detail {

class KeyValue {
 public:
  KeyValue(DType dtype, std::uint64_t bytes) : value_(dtype, bytes) {}

  bool defined() const { return value_.defined(); }
  DType dtype() const { return value_.dtype(); }
  std::uint64_t bytes() const { return value_.bytes(); }
  std::int64_t size() const { return value_.size(); }
  // The present value. Its bytes do not change as long as somebody holds the payload.
  Payload payload() const { return value_.payload(); }
  // A matrix of the rows with these numbers; a row has `row_bytes` bytes.
  NDArray rows(const RowList& numbers, std::uint64_t row_bytes) const;
  void set(const NDArray& value) { value_.set(value); }
  // Whether nobody else holds the value, such as a reply that has not been sent yet.
  bool may_change_in_place() const { return value_.may_change(); }
  // Replaces the value by a copy of `bytes`, in place if may_change_in_place().
  void overwrite(std::span<const std::byte> bytes) { value_.overwrite(bytes); }
  // Applies the pushes of one round, in the order of their ranks. Throws if they cannot be applied.
  void apply(const UpdateRule& rule, const std::vector<const Push*>& pushes);

  const KeyOptimizer& optimizer() const { return optimizer_; }
  // Makes an optimizer for the value, which must be defined; see KeyOptimizer's constructor.
  KeyOptimizer optimizer_with(const UpdateRule& rule, const StateArrays& state,
                              std::uint64_t row_bytes = 0) const;
  void set_optimizer(KeyOptimizer optimizer) { optimizer_ = std::move(optimizer); }

 private:
  void apply_whole(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void apply_rows(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void update(const UpdateRule& rule, const NDArray& sum, const Push& push);
  void update_rows(const UpdateRule& rule, const RowValues& sum, const Push& push);

  StoredValue value_;
  KeyOptimizer optimizer_{};
};

}  // namespace heddle::kv_detail
