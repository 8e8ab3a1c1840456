#include "server/key/row_updates.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <heddle/row_sparse.h>

#include "server/key/sole_weight.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

constexpr const char *kRowsEntry = "rows", *kUpdatesEntry = "updates";

std::span<const std::int64_t> numbers_in(const NDArray& rows) {
  rows.wait();
  return {rows.data<const std::int64_t>(), static_cast<std::size_t>(rows.size())};
}

RowSparse sparse(const RowValues& rows, std::int64_t bound) {
  return {{bound, rows.width()}, rows.rows, rows.values, full({1}, rows.count(), DType::i64)};
}

// The gradient of a weight that has only the rows of `gradient`, numbered from 0.
RowSparse compact(const RowValues& gradient) {
  const std::int64_t count = gradient.count();
  return {{count, gradient.width()},
          arange(0, static_cast<double>(count), 1, DType::i64),
          gradient.values,
          full({1}, count, DType::i64)};
}

NDArray count_array(std::int64_t count) { return full({1}, count, DType::i64); }

std::int64_t count_in(const StateArrays& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.dtype() != DType::i64 || found->second.size() != 1)
    throw InvalidArgument("optimizer state: '" + name + "' is not there, or no number");
  const auto count = found->second.item<std::int64_t>();
  if (count < 0) throw InvalidArgument("optimizer state: '" + name + "' is " + std::to_string(count));
  return count;
}

// Resizes with an eighth of spare memory. By itself a vector would double its memory, which the memory limits
// do not count.
void grow(std::vector<std::byte>& data, std::size_t bytes) {
  if (data.capacity() < bytes) data.reserve(bytes + bytes / 8);
  data.resize(bytes);
}

}  // namespace

std::uint64_t RowValues::bytes() const { return bytes_of(rows) + bytes_of(values); }

RowValues rows_in(const NDArray& payload, std::uint64_t row_bytes, DType dtype, std::uint64_t bound) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t width = static_cast<std::int64_t>(row_bytes) / element;
  const std::int64_t count =
      payload.size() / (static_cast<std::int64_t>(row_bytes) + static_cast<std::int64_t>(kRowNumberBytes));
  if (count == 0) return {NDArray({0}, DType::i64), NDArray({0, width}, dtype)};
  const std::int64_t begin = count * static_cast<std::int64_t>(kRowNumberBytes) / element;
  const RowValues rows{NDArray(payload.storage(), {count}, DType::i64),
                       NDArray(payload.storage(), {0}, dtype).view({count, width}, {width, 1}, begin)};
  check_row_list(numbers_in(rows.rows), bound);
  return rows;
}

RowValues sum_rows(const std::vector<RowValues>& all, std::int64_t bound) {
  if (all.size() == 1) return {all[0].rows, widened(all[0].values)};
  std::vector<RowSparse> arrays;
  for (const RowValues& one : all) arrays.push_back(sparse({one.rows, widened(one.values)}, bound));
  const RowSparse total = sum(arrays).trimmed();
  total.wait();
  return {total.rows(), total.values()};
}

NDArray gather_rows(const NDArray& matrix, const NDArray& rows) {
  NDArray values({rows.size(), matrix.shape()[1]}, matrix.dtype());
  matrix.wait();
  const std::size_t bytes = static_cast<std::size_t>(matrix.shape()[1]) * size_of(matrix.dtype());
  const auto* from = matrix.data<const std::byte>();
  auto* to = values.data<std::byte>();
  for (const std::int64_t row : numbers_in(rows)) {
    std::memcpy(to, from + static_cast<std::size_t>(row) * bytes, bytes);
    to += bytes;
  }
  return values;
}

void scatter_rows(const NDArray& matrix, const RowValues& rows) {
  matrix.wait();
  rows.values.wait();
  const std::size_t bytes = static_cast<std::size_t>(matrix.shape()[1]) * size_of(matrix.dtype());
  auto* to = matrix.data<std::byte>();
  const auto* from = rows.values.data<const std::byte>();
  for (const std::int64_t row : numbers_in(rows.rows)) {
    std::memcpy(to + static_cast<std::size_t>(row) * bytes, from, bytes);
    from += bytes;
  }
}

void add_rows_to(NDArray& dense, const RowValues& rows) {
  const std::int64_t bound = dense.size() / rows.width();
  add_rows(dense.view_as({bound, rows.width()}), sparse({rows.rows, widened(rows.values)}, bound));
}

// Finds out which arrays the optimizer keeps for a row by an update of a weight that has one row.
RowOptimizer::RowOptimizer(const UpdateRule& rule, DType dtype, std::int64_t width)
    : rule_(rule), dtype_(dtype), width_(width) {
  const auto optimizer = made();
  const RowValues nothing{zeros({1}, DType::i64), zeros({1, width}, dtype)};
  optimizer->update(kSoleWeight, zeros({1, width}, dtype), compact(nothing), {.lr = 0});
  for (const auto& [name, array] : optimizer->state()) {
    const std::string entry = name.substr(kSoleWeightPrefix.size());
    if (entry != kUpdatesEntry) columns_[entry] = {array.dtype(), bytes_of(array)};
  }
}

Shape RowOptimizer::shape_of(const Column& column, std::int64_t rows) const {
  const auto elements = static_cast<std::int64_t>(column.row_bytes / size_of(column.dtype));
  return elements == 1 && column.dtype == DType::i64 ? Shape{rows} : Shape{rows, elements};
}

std::vector<std::size_t> RowOptimizer::slots_for(const NDArray& rows) {
  std::vector<std::size_t> slots;
  if (columns_.empty()) return slots;
  for (const std::int64_t row : numbers_in(rows)) {
    const auto [entry, made] = slots_.try_emplace(row, rows_.size());
    if (made) rows_.push_back(row);
    slots.push_back(entry->second);
  }
  for (auto& [name, column] : columns_) grow(column.data, rows_.size() * column.row_bytes);
  return slots;
}

NDArray RowOptimizer::gathered(const Column& column, const std::vector<std::size_t>& slots) const {
  NDArray array(shape_of(column, static_cast<std::int64_t>(slots.size())), column.dtype);
  auto* to = array.data<std::byte>();
  for (const std::size_t slot : slots) {
    std::memcpy(to, column.data.data() + slot * column.row_bytes, column.row_bytes);
    to += column.row_bytes;
  }
  return array;
}

void RowOptimizer::update(const NDArray& weights, const RowValues& gradient, const UpdateOptions& options) {
  if (gradient.count() == 0) return (void)++updates_;
  const std::vector<std::size_t> slots = slots_for(gradient.rows);
  const auto optimizer = made();
  std::map<std::string, NDArray> state{{kSoleWeightPrefix + kUpdatesEntry, count_array(updates_)}};
  for (const auto& [name, column] : columns_) state[kSoleWeightPrefix + name] = gathered(column, slots);
  optimizer->set_state(state, {{kSoleWeight, weights}});
  optimizer->update(kSoleWeight, weights, compact(gradient), options);
  weights.wait();
  for (const auto& [name, array] : optimizer->state()) {
    array.wait();
    const auto found = columns_.find(name.substr(kSoleWeightPrefix.size()));
    if (found == columns_.end()) continue;
    Column& column = found->second;
    const auto* from = array.data<const std::byte>();
    for (const std::size_t slot : slots) {
      std::memcpy(column.data.data() + slot * column.row_bytes, from, column.row_bytes);
      from += column.row_bytes;
    }
  }
  ++updates_;
}

// All slots, in the rising order of their rows' numbers.
std::vector<std::size_t> RowOptimizer::rising() const {
  std::vector<std::size_t> slots(rows_.size());
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::sort(slots.begin(), slots.end(), [&](std::size_t a, std::size_t b) { return rows_[a] < rows_[b]; });
  return slots;
}

StateArrays RowOptimizer::state() const {
  const std::vector<std::size_t> slots = rising();
  NDArray rows({static_cast<std::int64_t>(slots.size())}, DType::i64);
  auto* to = rows.data<std::int64_t>();
  for (const std::size_t slot : slots) *to++ = rows_[slot];
  StateArrays all{
      {kRowsEntry, rows}, {kWidthEntry, count_array(width_)}, {kUpdatesEntry, count_array(updates_)}};
  for (const auto& [name, column] : columns_) {
    const NDArray array = gathered(column, slots);
    all[name] = array.view_as({array.size()});
  }
  return all;
}

void RowOptimizer::set_state(const StateArrays& state, std::int64_t bound) {
  const std::int64_t updates = count_in(state, kUpdatesEntry);
  const auto rows = state.find(kRowsEntry);
  if (rows == state.end() || rows->second.dtype() != DType::i64)
    throw InvalidArgument("optimizer state: '" + std::string(kRowsEntry) + "' is not there, or not i64");
  const std::span<const std::int64_t> numbers = numbers_in(rows->second);
  check_row_list(numbers, static_cast<std::uint64_t>(bound));
  std::map<std::string, Column> columns = columns_;
  for (auto& [name, column] : columns) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != column.dtype ||
        bytes_of(found->second) != numbers.size() * column.row_bytes)
      throw InvalidArgument("optimizer state: '" + name + "' does not fit " + std::to_string(numbers.size()) +
                            " rows");
    found->second.wait();
    const auto* from = found->second.data<const std::byte>();
    column.data.assign(from, from + bytes_of(found->second));
  }
  if (state.size() != columns.size() + 3) throw InvalidArgument("optimizer state: there is too much of it");
  columns_ = std::move(columns);
  updates_ = updates;
  rows_.assign(numbers.begin(), numbers.end());
  slots_.clear();
  for (std::size_t slot = 0; slot < rows_.size(); ++slot) slots_[rows_[slot]] = slot;
}

std::uint64_t RowOptimizer::row_bytes() const {
  if (columns_.empty()) return 0;
  std::uint64_t each = kRowSlotBytes;
  for (const auto& [name, column] : columns_) each += column.row_bytes;
  return each;
}

std::uint64_t RowOptimizer::bytes() const { return rows_.size() * row_bytes(); }

std::int64_t RowOptimizer::count_without_state(const NDArray& rows) const {
  const auto all = numbers_in(rows);
  return std::count_if(all.begin(), all.end(), [this](std::int64_t row) { return !slots_.contains(row); });
}

std::unique_ptr<Optimizer> RowOptimizer::whole(const NDArray& matrix) const {
  std::map<std::string, NDArray> state{{kSoleWeightPrefix + kUpdatesEntry, count_array(updates_)}};
  for (const auto& [name, column] : columns_) {
    const NDArray array = zeros(shape_of(column, matrix.shape()[0]), column.dtype);
    array.wait();
    auto* to = array.data<std::byte>();
    for (std::size_t slot = 0; slot < rows_.size(); ++slot)
      std::memcpy(to + static_cast<std::size_t>(rows_[slot]) * column.row_bytes,
                  column.data.data() + slot * column.row_bytes, column.row_bytes);
    state[kSoleWeightPrefix + name] = array;
  }
  auto optimizer = made();
  optimizer->set_state(state, {{kSoleWeight, matrix}});
  return optimizer;
}

bool RowOptimizer::take_over(const StateArrays& state, std::int64_t rows) {
  std::vector<bool> has_state(static_cast<std::size_t>(rows), false);
  for (const auto& [name, column] : columns_) {
    const auto found = state.find(name);
    if (found == state.end() || bytes_of(found->second) != has_state.size() * column.row_bytes) return false;
    found->second.wait();
    const auto* from = found->second.data<const std::byte>();
    for (std::size_t row = 0; row < has_state.size(); ++row, from += column.row_bytes) {
      if (std::any_of(from, from + column.row_bytes, [](std::byte one) { return one != std::byte{0}; }))
        has_state[row] = true;
    }
  }
  const auto count = std::count(has_state.begin(), has_state.end(), true);
  if (count > rows / 2 || state.size() != columns_.size() + 1) return false;
  NDArray present({count}, DType::i64);
  auto* to = present.data<std::int64_t>();
  for (std::size_t row = 0; row < has_state.size(); ++row) {
    if (has_state[row]) *to++ = static_cast<std::int64_t>(row);
  }
  StateArrays of_rows{
      {kRowsEntry, present}, {kWidthEntry, count_array(width_)}, {kUpdatesEntry, state.at(kUpdatesEntry)}};
  for (const auto& [name, column] : columns_) {
    const NDArray array = gather_rows(
        state.at(name).view_as({rows, static_cast<std::int64_t>(column.row_bytes / size_of(column.dtype))}),
        present);
    of_rows[name] = array.view_as({array.size()});
  }
  set_state(of_rows, rows);
  return true;
}

}  // namespace heddle::kv_detail
