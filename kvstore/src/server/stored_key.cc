#include "server/stored_key.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <heddle/ops.h>

namespace heddle::kv_detail {
namespace {

constexpr std::int64_t kOnly = 0;  // an optimizer keeps the state of one key

UpdateOptions options_of(const Push& push) {
  UpdateOptions options{.grad_scale = push.scale};
  if (!std::isnan(push.lr)) options.lr = push.lr;
  return options;
}

// Halves are added as f32, and the sum is rounded once.
NDArray wide(const NDArray& value) { return is_half(value.dtype()) ? value.astype(DType::f32) : value; }

// The memory of a push may still be on its way to the backup.
void make_own(NDArray& sum, const NDArray& pushed) {
  const bool is_pushed = pushed.defined() && sum.storage() == pushed.storage();
  if (sum.storage().use_count() > (is_pushed ? 2 : 1)) sum = sum.copy();
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool rows_fit(const Push& a, const Push& b) {
  return !a.rows.defined() || !b.rows.defined() || a.value.shape()[1] == b.value.shape()[1];
}

std::string describe(const Push& push) {
  if (push.overwrite) return "an assignment";
  return "lr " + (std::isnan(push.lr) ? "of the optimizer" : std::to_string(push.lr)) + ", scale " +
         std::to_string(push.scale) +
         (push.rows.defined() ? ", rows of " + std::to_string(push.value.shape()[1]) : "");
}

}  // namespace

StoredKey::StoredKey(std::string name, DType dtype, std::uint64_t bytes, std::size_t workers)
    : name_(std::move(name)),
      dtype_(dtype),
      bytes_(bytes),
      clocks_(workers),
      missed_(workers),
      pushes_(workers),
      incoming_(workers) {}

void StoredKey::clear_failure() {
  failure_.clear();
  if (value_) value_->engine().clear_error(value_->var());
}

void StoredKey::set_value(NDArray value) { value_ = std::make_shared<const NDArray>(std::move(value)); }

std::uint64_t StoredKey::waiting_bytes() const {
  std::uint64_t count = 0;
  for (const auto& of_rank : pushes_) {
    for (const Push& push : of_rank) count += push.bytes();
  }
  for (std::uint32_t rank = 0; rank < incoming_.size(); ++rank) count += incoming_bytes(rank);
  return count;
}

std::byte* StoredKey::incoming(std::uint32_t rank, std::uint64_t offset) {
  Incoming& mine = incoming_[rank];
  if (offset == mine.filled) return mine.memory.data<std::byte>() + offset;
  throw MalformedMessage("key " + name_ + ": a piece at " + std::to_string(offset) + ", where one at " +
                         std::to_string(mine.filled) + " should follow");
}

bool StoredKey::arrived(std::uint32_t rank, std::uint64_t offset, std::uint64_t bytes) {
  if (offset != incoming_[rank].filled) throw MalformedMessage("key " + name_ + ": pieces in disorder");
  incoming_[rank].filled = offset + bytes;
  return incoming_[rank].filled == incoming_bytes(rank);
}

void StoredKey::push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
                     const Required& required) {
  ++clocks_[rank];
  if (consistency.mode == Consistency::Mode::sync) {
    pushes_[rank].push_back(std::move(push));
    complete_rounds(rule, required);
  } else if (!push.overwrite || push.value.defined()) {
    apply(rule, {&push});
  }
}

bool StoredKey::replace(std::uint32_t rank, std::span<const std::byte> bytes) {
  if (!value_ || value_.use_count() > 1) return false;
  std::memcpy(const_cast<NDArray&>(*value_).data<std::byte>(), bytes.data(), bytes.size());
  ++clocks_[rank];
  return true;
}

int StoredKey::complete_rounds(const UpdateRule& rule, const Required& required) {
  int completed = 0;
  while (value_) {
    std::vector<const Push*> round;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < pushes_.size(); ++rank) {
      if (pushes_[rank].empty() && required[rank]) return completed;
      if (pushes_[rank].empty()) continue;
      round.push_back(&pushes_[rank].front());
      ranks.push_back(rank);
    }
    if (round.empty()) return completed;
    const auto other = std::find_if(round.begin(), round.end(), [&](const Push* push) {
      return push->overwrite != round[0]->overwrite || !same(push->lr, round[0]->lr) ||
             !same(push->scale, round[0]->scale) || !rows_fit(*push, *round[0]);
    });
    if (other == round.end()) {
      apply(rule, round);
    } else {
      failure_ = "key " + name_ + ", round " + std::to_string(rounds_ + 1) + ": worker " +
                 std::to_string(ranks[0]) + " pushed with " + describe(*round[0]) + ", worker " +
                 std::to_string(ranks[static_cast<std::size_t>(other - round.begin())]) + " with " +
                 describe(**other) + "; the round changed nothing";
    }
    for (const std::uint32_t rank : ranks) pushes_[rank].pop_front();
    ++rounds_;
    ++completed;
  }
  return completed;
}

// The sum is that of the values in the order of the ranks, whatever the order they came in.
void StoredKey::apply(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
  try {
    const bool has_rows =
        std::any_of(pushes.begin(), pushes.end(), [](const Push* push) { return push->rows.defined(); });
    if (has_rows) return apply_rows(rule, pushes);
    NDArray sum;
    for (const Push* push : pushes) {
      if (!push->value.defined()) continue;
      if (!sum.defined()) {
        sum = wide(push->value);
      } else if (!push->overwrite) {
        make_own(sum, pushes[0]->value);
        sum += wide(push->value);
      }
    }
    if (sum.defined()) update(rule, sum, *pushes[0]);
  } catch (const std::exception& error) {
    failure_ = "key " + name_ + ": " + error.what();
  }
}

void StoredKey::update(const UpdateRule& rule, const NDArray& sum, const Push& push) {
  if (push.overwrite || rule.kind == UpdateRule::Kind::replace) {
    if (sum.dtype() == dtype_) return set_value(sum);
    set_value(sum.astype(dtype_));
  } else if (rule.kind == UpdateRule::Kind::add && is_half(dtype_)) {
    set_value((wide(*value_) + sum * push.scale).astype(dtype_));
  } else if (rule.kind == UpdateRule::Kind::add) {
    NDArray value = to_change();
    value += push.scale == 1 ? sum : sum * push.scale;
  } else {
    const bool first = !optimizer_;
    if (first) make_optimizer(rule);
    optimizer_->update(kOnly, shaped(to_change()), shaped(sum), options_of(push));
    if (first) count_state();
  }
  value_->wait();
}

// In place, unless a reply or a record that has not been sent yet needs the old value.
NDArray& StoredKey::to_change() {
  if (value_.use_count() > 1 || value_->storage().use_count() > 1) set_value(value_->copy());
  return const_cast<NDArray&>(*value_);
}

std::optional<std::uint64_t> StoredKey::lead(std::uint32_t rank, std::uint64_t clock,
                                             const Consistency& consistency, const Required& required) const {
  if (!value_) return std::nullopt;
  if (consistency.mode == Consistency::Mode::sync) {
    if (clocks_[rank] - pushes_[rank].size() >= clock) return 0;
    return std::nullopt;
  }
  const std::uint64_t mine = clock + missed_[rank];
  std::uint64_t least = mine;
  for (std::uint32_t other = 0; other < clocks_.size(); ++other) {
    if (required[other]) least = std::min(least, progress(other));
  }
  if (consistency.mode == Consistency::Mode::ssp && mine - least > consistency.slack) return std::nullopt;
  return mine - least;
}

void StoredKey::rejoin(std::uint32_t rank, const Required& required) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t other = 0; other < clocks_.size(); ++other) {
    if (other != rank && required[other]) least = std::min(least, progress(other));
  }
  if (least != ~std::uint64_t{0} && least > progress(rank)) missed_[rank] += least - progress(rank);
}

std::map<std::string, NDArray> StoredKey::state() const {
  if (row_optimizer_) return row_optimizer_->state();
  std::map<std::string, NDArray> all;
  if (!optimizer_) return all;
  for (const auto& [name, value] : optimizer_->state()) all[name.substr(name.find('.') + 1)] = value;
  return all;
}

void StoredKey::set_state(const UpdateRule& rule, const std::map<std::string, NDArray>& state,
                          std::uint64_t row_bytes) {
  std::unique_ptr<Optimizer> made;
  if (rule.kind == UpdateRule::Kind::optimizer && set_row_state(rule, state, row_bytes)) return;
  if (rule.kind == UpdateRule::Kind::optimizer && !state.empty()) {
    made = create_optimizer(rule.name, rule.params);
    std::map<std::string, NDArray> named;
    for (const auto& [name, value] : state) named[std::to_string(kOnly) + "." + name] = value;
    made->set_state(named, {{kOnly, *value_}});
  }
  reset_optimizer();
  optimizer_ = std::move(made);
  count_state();
}

void StoredKey::reset_optimizer() {
  optimizer_ = nullptr;
  row_optimizer_ = nullptr;
  matrix_rows_ = 0;
  count_state();
}

void StoredKey::count_state() {
  state_bytes_ = row_optimizer_ ? row_optimizer_->bytes() : 0;
  if (row_optimizer_) return;
  for (const auto& [name, value] : state())
    state_bytes_ += static_cast<std::uint64_t>(value.size()) * size_of(value.dtype());
}

}  // namespace heddle::kv_detail
