#include "server/key/key_value.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/ops.h>

#include "server/key/sole_owner.h"
#include "server/key/sole_weight.h"
#include "server/replica/keep_alive.h"

namespace heddle::kv_detail {
namespace {

UpdateOptions options_of(const Push& push) {
  UpdateOptions options{.grad_scale = push.scale};
  if (!std::isnan(push.lr)) options.lr = push.lr;
  return options;
}

// Copies the sum if somebody else holds its memory, such as a record that has not been sent to the backup
// yet.
void make_own(NDArray& sum, const NDArray& pushed) {
  const bool is_pushed = pushed.defined() && sum.storage() == pushed.storage();
  if (!is_held_only_by(is_pushed ? 2 : 1, sum.storage())) sum = sum.copy();
}

}  // namespace

NDArray KeyValue::rows(const RowList& numbers, std::uint64_t row_bytes) const {
  NDArray list({static_cast<std::int64_t>(numbers->size())}, DType::i64);
  std::copy(numbers->begin(), numbers->end(), list.data<std::int64_t>());
  return gather_rows(as_matrix(value_.array(), static_cast<std::int64_t>(bytes() / row_bytes)), list);
}

KeyOptimizer KeyValue::optimizer_with(const UpdateRule& rule, const StateArrays& state,
                                      std::uint64_t row_bytes) const {
  return {rule, state, value_.array(), row_bytes};
}

void KeyValue::apply(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
  const bool has_rows =
      std::any_of(pushes.begin(), pushes.end(), [](const Push* push) { return push->rows.defined(); });
  if (has_rows) return apply_rows(rule, pushes);
  run_long(bytes(), [&] { apply_whole(rule, pushes); });
}

void KeyValue::apply_whole(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
  NDArray sum;
  for (const Push* push : pushes) {
    if (!push->value.defined()) continue;
    if (!sum.defined()) {
      sum = widened(push->value);
    } else if (!push->overwrite) {
      make_own(sum, pushes[0]->value);
      sum += widened(push->value);
    }
  }
  if (sum.defined()) update(rule, sum, *pushes[0]);
}

// Applies a round with pushes of rows. If all of its pushes have rows, their sum has rows. If one of them has
// a whole value, the sum is a whole value.
void KeyValue::apply_rows(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
  std::vector<RowValues> rows;
  NDArray sum;
  for (const Push* push : pushes) {
    if (push->rows.defined()) {
      rows.push_back({push->rows, push->value});
    } else {
      sum = zeros({size()}, widened(value_.array()).dtype());
    }
  }
  if (!sum.defined()) return update_rows(rule, sum_rows(rows, size() / rows[0].width()), *pushes[0]);
  for (const Push* push : pushes) {
    if (push->rows.defined()) {
      add_rows_to(sum, {push->rows, push->value});
    } else {
      sum += widened(push->value);
    }
  }
  update(rule, sum, *pushes[0]);
}

// Updates the value in place, unless a reply or a record that has not been sent yet needs the old value.
void KeyValue::update(const UpdateRule& rule, const NDArray& sum, const Push& push) {
  if (push.overwrite || rule.kind == UpdateRule::Kind::replace)
    return set(sum.dtype() == dtype() ? sum : sum.astype(dtype()));
  if (rule.kind == UpdateRule::Kind::add && is_half(dtype()))
    return set((widened(value_.array()) + sum * push.scale).astype(dtype()));
  NDArray value = value_.array_to_change();
  if (rule.kind != UpdateRule::Kind::add) return optimizer_.update(rule, value, sum, options_of(push));
  value += push.scale == 1 ? sum : sum * push.scale;
  value.wait();
}

void KeyValue::update_rows(const UpdateRule& rule, const RowValues& sum, const Push& push) {
  if (rule.kind == UpdateRule::Kind::optimizer)
    return optimizer_.update_rows(rule, value_.array_to_change(), sum, options_of(push));
  const std::int64_t rows = size() / sum.width();
  NDArray values = sum.values;
  if (rule.kind == UpdateRule::Kind::add) {
    values = widened(gather_rows(as_matrix(value_.array(), rows), sum.rows));
    values += push.scale == 1 ? sum.values : sum.values * push.scale;
  }
  if (values.dtype() != dtype()) values = values.astype(dtype());
  scatter_rows(as_matrix(value_.array_to_change(), rows), {sum.rows, values});
}

}  // namespace heddle::kv_detail
