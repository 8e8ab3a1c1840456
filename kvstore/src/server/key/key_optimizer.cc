#include "server/key/key_optimizer.h"

#include <algorithm>
#include <utility>

#include <heddle/ops.h>

#include "server/key/sole_owner.h"
#include "server/key/sole_weight.h"

namespace heddle::kv_detail {
namespace {

constexpr const char* kRowUpdates = "row_updates";

// `state` under the names that the optimizer expects. Arrays of the value's size become matrices.
std::map<std::string, NDArray> named(const StateArrays& state, const NDArray& matrix) {
  std::map<std::string, NDArray> all;
  for (const auto& [name, array] : state)
    all[kSoleWeightPrefix + name] =
        name != kRowUpdates && array.size() == matrix.size() ? array.view_as(matrix.shape()) : array;
  return all;
}

// An optimizer of rows with this state; null: the state is that of an optimizer of the whole value.
std::unique_ptr<RowOptimizer> row_optimizer_from(const UpdateRule& rule, const StateArrays& state,
                                                 const NDArray& value, std::uint64_t row_bytes) {
  const auto width = state.find(kWidthEntry);
  const bool is_of_rows =
      width != state.end() && width->second.dtype() == DType::i64 && width->second.size() == 1;
  const auto elements = is_of_rows ? width->second.item<std::int64_t>()
                                   : static_cast<std::int64_t>(row_bytes / size_of(value.dtype()));
  if (elements < 1 || value.size() % elements != 0) return nullptr;
  auto made = std::make_unique<RowOptimizer>(rule, value.dtype(), elements);
  const std::int64_t rows = value.size() / elements;
  if (!is_of_rows) return made->take_over(state, rows) ? std::move(made) : nullptr;
  made->set_state(state, rows);
  return made;
}

}  // namespace

// Makes no optimizer if there is no state, since an optimizer may refuse this key.
KeyOptimizer::KeyOptimizer(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
                           std::uint64_t row_bytes) {
  if (rule.kind != UpdateRule::Kind::optimizer || state.empty()) return;
  if (!take_row_state(rule, state, value, row_bytes)) {
    whole_ = create_optimizer(rule.name, rule.params);
    std::map<std::string, NDArray> all;
    for (const auto& [name, array] : state) all[kSoleWeightPrefix + name] = array;
    whole_->set_state(all, {{kSoleWeight, value}});
  }
  count();
}

// Takes the state if it is that of an optimizer of rows, or has counts of updates per row. Returns whether it
// does.
bool KeyOptimizer::take_row_state(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
                                  std::uint64_t row_bytes) {
  rows_ = row_optimizer_from(rule, state, value, row_bytes);
  if (rows_) return true;
  const auto counts = state.find(kRowUpdates);
  if (counts == state.end() || counts->second.size() == 0 || value.size() % counts->second.size() != 0)
    return false;
  make_matrix(rule, state, value, counts->second.size());
  return true;
}

void KeyOptimizer::update(const UpdateRule& rule, const NDArray& value, const NDArray& sum,
                          const UpdateOptions& options) {
  const bool first = !whole_;
  if (first) make_whole(rule, value);
  own_state();
  whole_->update(kSoleWeight, shaped(value), shaped(sum), options);
  if (first) count();
  value.wait();
}

void KeyOptimizer::update_rows(const UpdateRule& rule, const NDArray& value, const RowValues& sum,
                               const UpdateOptions& options) {
  const std::int64_t rows = value.size() / sum.width();
  if (whole_) {
    if (matrix_rows_ != rows) make_matrix(rule, state(), value, rows);
    own_state();
    const RowSparse gradient({rows, sum.width()}, sum.rows, sum.values, full({1}, sum.count(), DType::i64));
    whole_->update(kSoleWeight, shaped(value), gradient, options);
  } else {
    if (!rows_) rows_ = std::make_unique<RowOptimizer>(rule, value.dtype(), sum.width());
    if (rows_->width() != sum.width())
      throw InvalidArgument("rows of " + std::to_string(sum.width()) + " elements; those before had " +
                            std::to_string(rows_->width()));
    const RowValues now{sum.rows, gather_rows(as_matrix(value, rows), sum.rows)};
    rows_->update(now.values, sum, options);
    scatter_rows(as_matrix(value, rows), now);
  }
  count();
  value.wait();
}

void KeyOptimizer::make_whole(const UpdateRule& rule, const NDArray& value) {
  if (!rows_) {
    whole_ = create_optimizer(rule.name, rule.params);
    return;
  }
  const std::int64_t rows = value.size() / rows_->width();
  whole_ = rows_->whole(as_matrix(value, rows));
  matrix_rows_ = rows;
  rows_ = nullptr;
}

void KeyOptimizer::make_matrix(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
                               std::int64_t rows) {
  const NDArray matrix = as_matrix(value, rows);
  auto made = create_optimizer(rule.name, rule.params);
  made->set_state(named(state, matrix), {{kSoleWeight, matrix}});
  whole_ = std::move(made);
  matrix_rows_ = rows;
}

NDArray KeyOptimizer::shaped(const NDArray& flat) const {
  return matrix_rows_ > 0 ? as_matrix(flat, matrix_rows_) : flat;
}

StateArrays KeyOptimizer::state() const {
  if (rows_) return rows_->state();
  StateArrays all;
  if (!whole_) return all;
  for (const auto& [name, value] : whole_->state()) all[name.substr(name.find('.') + 1)] = value;
  return all;
}

StateArrays KeyOptimizer::shared_state() const {
  shared_ = whole_ != nullptr;
  return state();
}

// Copies the state before it changes, if a snapshot or a new backup still has to read it.
void KeyOptimizer::own_state() {
  if (!std::exchange(shared_, false)) return;
  const std::map<std::string, NDArray> all = whole_->state();
  // Two owners of each storage belong to this thread: the optimizer and `all`.
  const bool held = std::any_of(all.begin(), all.end(),
                                [](const auto& one) { return !is_held_only_by(2, one.second.storage()); });
  if (held) whole_->set_state(all);
}

void KeyOptimizer::count() {
  bytes_ = rows_ ? rows_->bytes() : 0;
  if (!whole_) return;
  for (const auto& [name, array] : whole_->state()) bytes_ += bytes_of(array);
}

std::uint64_t KeyOptimizer::bytes_for_whole(const StateSize& state, std::int64_t size) const {
  if (whole_) return bytes_;
  const std::uint64_t counts = rows_ ? static_cast<std::uint64_t>(size / rows_->width()) * kRowCountBytes : 0;
  return state.bytes(size) + counts;
}

std::uint64_t KeyOptimizer::bytes_for_rows(const UpdateRule& rule, const NDArray& rows, std::int64_t width,
                                           std::int64_t size, DType dtype) const {
  if (rule.kind != UpdateRule::Kind::optimizer) return 0;
  if (whole_) {
    const std::int64_t all = size / width;
    return matrix_rows_ == all ? 0 : static_cast<std::uint64_t>(all) * kRowCountBytes;
  }
  if (rows_) return static_cast<std::uint64_t>(rows_->count_without_state(rows)) * rows_->row_bytes();
  try {
    return static_cast<std::uint64_t>(rows.size()) * RowOptimizer(rule, dtype, width).row_bytes();
  } catch (const InvalidArgument&) {  // ignored: the update will throw this error again
    return 0;
  }
}

}  // namespace heddle::kv_detail
