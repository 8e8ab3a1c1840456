// Pushes of rows to a stored key. The value and its optimizer's state have one dimension or, once rows were
// pushed while the whole value had state, two.
#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/ops.h>

#include "server/job/compression.h"
#include "server/job/sole_weight.h"
#include "server/job/stored_key.h"
#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

constexpr const char* kRowUpdates = "row_updates";

NDArray as_matrix(const NDArray& value, std::int64_t rows) {
  return value.view_as({rows, value.size() / rows});
}

// State under the names that the optimizer expects, as matrices where it has the value's size.
std::map<std::string, NDArray> named(const std::map<std::string, NDArray>& state, const NDArray& matrix) {
  std::map<std::string, NDArray> all;
  for (const auto& [name, array] : state)
    all[kSoleWeightPrefix + name] =
        name != kRowUpdates && array.size() == matrix.size() ? array.view_as(matrix.shape()) : array;
  return all;
}

}  // namespace

std::uint64_t Push::bytes() const { return bytes_of(value) + bytes_of(rows); }

void StoredKey::begin_incoming(std::uint32_t rank, const Request& request) {
  auto mine = std::make_unique<Incoming>();
  mine->row_bytes = request.row_bytes;
  mine->codec = codec_of(request);
  const bool as_it_is = mine->row_bytes == 0 && !mine->codec;
  mine->memory =
      as_it_is ? NDArray({size()}, dtype()) : NDArray({static_cast<std::int64_t>(request.bytes)}, DType::u8);
  mine->memory.data<std::byte>();  // allocates the memory now
  if (mine->codec) (mine->decoded = NDArray({size()}, dtype())).data<std::byte>();
  workers_[rank].incoming = std::move(mine);
  waiting_bytes_ += incoming_memory_bytes(rank);
}

std::uint64_t StoredKey::incoming_bytes(std::uint32_t rank) const {
  return is_incoming(rank) ? bytes_of(workers_[rank].incoming->memory) : 0;
}

std::uint64_t StoredKey::incoming_memory_bytes(std::uint32_t rank) const {
  return is_incoming(rank) ? incoming_bytes(rank) + bytes_of(workers_[rank].incoming->decoded) : 0;
}

NDArray StoredKey::take_incoming(std::uint32_t rank) {
  waiting_bytes_ -= incoming_memory_bytes(rank);
  const auto mine = std::move(workers_[rank].incoming);
  return mine ? mine->memory : NDArray();
}

void StoredKey::take_incoming(std::uint32_t rank, Push& push) {
  waiting_bytes_ -= incoming_memory_bytes(rank);
  const auto mine = std::move(workers_[rank].incoming);
  if (mine->row_bytes > 0) return set_rows(push, mine->memory, mine->row_bytes);
  push.value = mine->codec ? mine->decoded : mine->memory;
}

void StoredKey::check_incoming(std::uint32_t rank) {
  const Incoming& mine = *workers_[rank].incoming;
  if (mine.row_bytes > 0) rows_in(mine.memory, mine.row_bytes, dtype(), bytes() / mine.row_bytes);
  if (!mine.codec) return;
  try {
    const auto bytes = static_cast<std::size_t>(mine.memory.size()), count = static_cast<std::size_t>(size());
    mine.codec->decode({mine.memory.data<const std::byte>(), bytes}, {mine.decoded.data<float>(), count});
  } catch (const Error& error) {
    throw MalformedMessage("key " + name_ + ": " + error.what());
  }
}

void StoredKey::set_rows(Push& push, const NDArray& payload, std::uint64_t row_bytes) const {
  RowValues rows = rows_in(payload, row_bytes, dtype(), bytes() / row_bytes);
  push.rows = std::move(rows.rows);
  push.value = std::move(rows.values);
}

NDArray StoredKey::rows_of_value(const RowList& rows, std::uint64_t row_bytes) const {
  NDArray list({static_cast<std::int64_t>(rows->size())}, DType::i64);
  std::copy(rows->begin(), rows->end(), list.data<std::int64_t>());
  return gather_rows(as_matrix(value_.array(), static_cast<std::int64_t>(bytes() / row_bytes)), list);
}

// If all workers push rows, the sum has rows. If one of them pushes a whole value, the sum is a whole value.
void StoredKey::apply_rows(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
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

void StoredKey::update_rows(const UpdateRule& rule, const RowValues& sum, const Push& push) {
  if (rule.kind == UpdateRule::Kind::optimizer) return update_row_state(rule, sum, push);
  const std::int64_t rows = size() / sum.width();
  NDArray values = sum.values;
  if (rule.kind == UpdateRule::Kind::add) {
    values = widened(gather_rows(as_matrix(value_.array(), rows), sum.rows));
    values += push.scale == 1 ? sum.values : sum.values * push.scale;
  }
  if (values.dtype() != dtype()) values = values.astype(dtype());
  scatter_rows(as_matrix(value_.array_to_change(), rows), {sum.rows, values});
}

void StoredKey::update_row_state(const UpdateRule& rule, const RowValues& sum, const Push& push) {
  UpdateOptions options{.grad_scale = push.scale};
  if (!std::isnan(push.lr)) options.lr = push.lr;
  const std::int64_t rows = size() / sum.width();
  NDArray value = value_.array_to_change();
  if (optimizer_) {
    if (matrix_rows_ != rows) make_matrix_optimizer(rule, rows);
    own_state();
    const RowSparse gradient({rows, sum.width()}, sum.rows, sum.values, full({1}, sum.count(), DType::i64));
    optimizer_->update(kSoleWeight, shaped(value), gradient, options);
  } else {
    if (!row_optimizer_) row_optimizer_ = std::make_unique<RowOptimizer>(rule, dtype(), sum.width());
    if (row_optimizer_->width() != sum.width())
      throw InvalidArgument("rows of " + std::to_string(sum.width()) + " elements; those before had " +
                            std::to_string(row_optimizer_->width()));
    const RowValues now{sum.rows, gather_rows(as_matrix(value, rows), sum.rows)};
    row_optimizer_->update(now.values, sum, options);
    scatter_rows(as_matrix(value, rows), now);
  }
  count_state();
  value.wait();
}

// Makes the optimizer of the whole value.
void StoredKey::make_optimizer(const UpdateRule& rule) {
  if (!row_optimizer_) {
    optimizer_ = create_optimizer(rule.name, rule.params);
    return;
  }
  const std::int64_t rows = size() / row_optimizer_->width();
  optimizer_ = row_optimizer_->whole(as_matrix(value_.array(), rows));
  matrix_rows_ = rows;
  row_optimizer_ = nullptr;
}

void StoredKey::make_matrix_optimizer(const UpdateRule& rule, std::int64_t rows) {
  const NDArray matrix = as_matrix(value_.array(), rows);
  auto made = create_optimizer(rule.name, rule.params);
  made->set_state(named(state(), matrix), {{kSoleWeight, matrix}});
  optimizer_ = std::move(made);
  matrix_rows_ = rows;
}

// An optimizer of rows with this state; null: it is state of a whole value.
std::unique_ptr<RowOptimizer> StoredKey::row_optimizer_from(const UpdateRule& rule,
                                                            const std::map<std::string, NDArray>& state,
                                                            std::uint64_t row_bytes) const {
  const auto width = state.find(kWidthEntry);
  const bool is_of_rows =
      width != state.end() && width->second.dtype() == DType::i64 && width->second.size() == 1;
  const auto elements = is_of_rows ? width->second.item<std::int64_t>()
                                   : static_cast<std::int64_t>(row_bytes / size_of(dtype()));
  if (elements < 1 || size() % elements != 0) return nullptr;
  auto made = std::make_unique<RowOptimizer>(rule, dtype(), elements);
  const std::int64_t rows = size() / elements;
  if (!is_of_rows) return made->take_over(state, rows) ? std::move(made) : nullptr;
  made->set_state(state, rows);
  return made;
}

// Sets state of a value with rows. False: the state has none.
bool StoredKey::set_row_state(const UpdateRule& rule, const std::map<std::string, NDArray>& state,
                              std::uint64_t row_bytes) {
  if (auto made = row_optimizer_from(rule, state, row_bytes)) {
    reset_optimizer();
    row_optimizer_ = std::move(made);
    count_state();
    return true;
  }
  const auto counts = state.find(kRowUpdates);
  if (counts == state.end() || counts->second.size() == 0 || size() % counts->second.size() != 0)
    return false;
  const NDArray matrix = as_matrix(value_.array(), counts->second.size());
  auto made = create_optimizer(rule.name, rule.params);
  made->set_state(named(state, matrix), {{kSoleWeight, matrix}});
  reset_optimizer();
  optimizer_ = std::move(made);
  matrix_rows_ = matrix.shape()[0];
  count_state();
  return true;
}

std::uint64_t StoredKey::whole_state_bytes(const StateSize& size) const {
  if (optimizer_) return state_bytes_;
  const std::uint64_t counts =
      row_optimizer_ ? static_cast<std::uint64_t>(this->size() / row_optimizer_->width()) * kRowCountBytes
                     : 0;
  return size.bytes(this->size()) + counts;
}

std::uint64_t StoredKey::row_state_bytes(std::uint32_t rank, const UpdateRule& rule) const {
  const Incoming& mine = *workers_[rank].incoming;
  if (mine.row_bytes == 0 || rule.kind != UpdateRule::Kind::optimizer) return 0;
  const RowValues rows = rows_in(mine.memory, mine.row_bytes, dtype(), bytes() / mine.row_bytes);
  return row_state_bytes(rows.rows, rows.width(), rule);
}

std::uint64_t StoredKey::row_state_bytes(const NDArray& rows, std::int64_t width,
                                         const UpdateRule& rule) const {
  if (optimizer_) {
    const std::int64_t all = size() / width;
    return matrix_rows_ == all ? 0 : static_cast<std::uint64_t>(all) * kRowCountBytes;
  }
  if (row_optimizer_)
    return static_cast<std::uint64_t>(row_optimizer_->count_without_state(rows)) *
           row_optimizer_->row_bytes();
  try {
    return static_cast<std::uint64_t>(rows.size()) * RowOptimizer(rule, dtype(), width).row_bytes();
  } catch (const InvalidArgument&) {  // the update will fail with this error
    return 0;
  }
}

void StoredKey::reserve_for_waiting(const UpdateRule& rule, const StateSize& size) {
  for (OfWorker& worker : workers_) {
    for (Push& push : worker.pushes) {
      if (push.rows.defined()) {
        waiting_bytes_ -= push.state_bytes;
        push.state_bytes = row_state_bytes(push.rows, push.value.shape()[1], rule);
        waiting_bytes_ += push.state_bytes;
      } else if (!push.overwrite) {
        reserve_state(whole_state_bytes(size));
      }
    }
  }
}

NDArray StoredKey::shaped(const NDArray& flat) const {
  return matrix_rows_ > 0 ? as_matrix(flat, matrix_rows_) : flat;
}

}  // namespace heddle::kv_detail
