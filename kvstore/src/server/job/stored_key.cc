#include "server/job/stored_key.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <heddle/number_text.h>
#include <heddle/ops.h>

#include "server/job/sole_owner.h"
#include "server/job/sole_weight.h"
#include "server/replica/keep_alive.h"

namespace heddle::kv_detail {
namespace {

UpdateOptions options_of(const Push& push) {
  UpdateOptions options{.grad_scale = push.scale};
  if (!std::isnan(push.lr)) options.lr = push.lr;
  return options;
}

// Copies the sum if its memory is held elsewhere, such as by a record that is not sent to the backup yet.
void make_own(NDArray& sum, const NDArray& pushed) {
  const bool is_pushed = pushed.defined() && sum.storage() == pushed.storage();
  if (!is_held_only_by(is_pushed ? 2 : 1, sum.storage())) sum = sum.copy();
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool rows_fit(const Push& a, const Push& b) {
  return !a.rows.defined() || !b.rows.defined() || a.value.shape()[1] == b.value.shape()[1];
}

std::string describe(const Push& push) {
  if (push.overwrite) return "an assignment";
  return "lr " + (std::isnan(push.lr) ? "of the optimizer" : number_text(push.lr)) + ", scale " +
         number_text(push.scale) +
         (push.rows.defined() ? ", rows of " + std::to_string(push.value.shape()[1]) : "");
}

}  // namespace

StoredKey::StoredKey(std::string name, DType dtype, std::uint64_t bytes, std::size_t workers)
    : name_(std::move(name)), value_(dtype, bytes), workers_(workers) {}

void StoredKey::clear_failure(std::uint32_t rank, const Consistency& consistency) {
  if (failures.any()) drop_pushes();
  failures.of_pushes.erase(rank);
  if (!failures.any()) return;
  for (OfWorker& worker : workers_) {
    if (consistency.mode == Consistency::Mode::sync) worker.missed = 0;
  }
  failures.why = nullptr;
}

void StoredKey::drop_pushes() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (!workers_[rank].pushes.empty()) failures.push_failed(rank);
    while (!workers_[rank].pushes.empty()) pop_push(rank);
  }
  reserved_state_ = 0;
}

void StoredKey::add_push(std::uint32_t rank, Push push) {
  ++pushes_waiting_;
  waiting_bytes_ += push.bytes() + push.state_bytes;
  workers_[rank].pushes.push_back(std::move(push));
}

void StoredKey::pop_push(std::uint32_t rank) {
  std::list<Push>& pushes = workers_[rank].pushes;
  --pushes_waiting_;
  waiting_bytes_ -= pushes.front().bytes() + pushes.front().state_bytes;
  pushes.pop_front();
}

std::uint64_t StoredKey::overhead(std::size_t name, std::size_t workers) {
  constexpr std::size_t kOfMaps = 128;  // bytes in maps that find keys by name
  return sizeof(StoredKey) + kOfMaps + 2 * name + workers * sizeof(OfWorker);
}

std::byte* StoredKey::incoming(std::uint32_t rank, std::uint64_t offset) {
  Incoming& mine = *workers_[rank].incoming;
  if (offset == mine.filled) return mine.memory.data<std::byte>() + offset;
  throw MalformedMessage("key " + name_ + ": a piece at " + std::to_string(offset) + ", where one at " +
                         std::to_string(mine.filled) + " should follow");
}

bool StoredKey::arrived(std::uint32_t rank, std::uint64_t offset, std::uint64_t bytes) {
  Incoming& mine = *workers_[rank].incoming;
  if (offset != mine.filled) throw MalformedMessage("key " + name_ + ": pieces in disorder");
  mine.filled = offset + bytes;
  return mine.filled == incoming_bytes(rank);
}

void StoredKey::push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
                     const Required& required) {
  ++workers_[rank].clock;
  if (consistency.mode == Consistency::Mode::sync) {
    add_push(rank, std::move(push));
    complete_rounds(rule, required);
  } else if (!push.overwrite || push.value.defined()) {
    apply(rule, {&push});
    failures.push_failed(rank);
  }
}

bool StoredKey::replace(std::uint32_t rank, std::span<const std::byte> bytes) {
  std::byte* const to = value_.bytes_to_change();
  if (!to) return false;
  std::memcpy(to, bytes.data(), bytes.size());
  ++workers_[rank].clock;
  return true;
}

int StoredKey::complete_rounds(const UpdateRule& rule, const Required& required) {
  int completed = 0;
  while (value_.defined() && pushes_waiting_ > 0) {
    std::vector<const Push*> round;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      if (workers_[rank].pushes.empty() && required[rank]) return completed;
      if (workers_[rank].pushes.empty()) continue;
      round.push_back(&workers_[rank].pushes.front());
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
      failures.set("key " + name_ + ", round " + std::to_string(rounds_ + 1) + ": worker " +
                   std::to_string(ranks[0]) + " pushed with " + describe(*round[0]) + ", worker " +
                   std::to_string(ranks[static_cast<std::size_t>(other - round.begin())]) + " with " +
                   describe(**other) + "; the round changed nothing");
    }
    for (const std::uint32_t rank : ranks) {
      pop_push(rank);
      failures.push_failed(rank);
    }
    ++rounds_;
    ++completed;
  }
  return completed;
}

// Sums the values in the order of the ranks, whatever order they came in.
void StoredKey::apply(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
  try {
    const bool has_rows =
        std::any_of(pushes.begin(), pushes.end(), [](const Push* push) { return push->rows.defined(); });
    if (has_rows) return apply_rows(rule, pushes);
    run_long(bytes(), [&] { apply_whole(rule, pushes); });
  } catch (const std::exception& error) {
    failures.set("key " + name_ + ": " + error.what());
  }
}

void StoredKey::apply_whole(const UpdateRule& rule, const std::vector<const Push*>& pushes) {
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

// Works in place, unless a reply or a record that has not been sent yet needs the old value.
void StoredKey::update(const UpdateRule& rule, const NDArray& sum, const Push& push) {
  if (push.overwrite || rule.kind == UpdateRule::Kind::replace)
    return set_value(sum.dtype() == dtype() ? sum : sum.astype(dtype()));
  if (rule.kind == UpdateRule::Kind::add && is_half(dtype()))
    return set_value((widened(value_.array()) + sum * push.scale).astype(dtype()));
  NDArray value = value_.array_to_change();
  if (rule.kind == UpdateRule::Kind::add) {
    value += push.scale == 1 ? sum : sum * push.scale;
  } else {
    const bool first = !optimizer_;
    if (first) make_optimizer(rule);
    own_state();
    optimizer_->update(kSoleWeight, shaped(value), shaped(sum), options_of(push));
    if (first) count_state();
  }
  value.wait();
}

// Copies the optimizer's state before it changes, if a snapshot or a new backup still has to read it.
void StoredKey::own_state() {
  if (!std::exchange(state_shared_, false)) return;
  const std::map<std::string, NDArray> all = optimizer_->state();
  // The optimizer and `all` hold each storage.
  const bool held = std::any_of(all.begin(), all.end(),
                                [](const auto& one) { return !is_held_only_by(2, one.second.storage()); });
  if (held) optimizer_->set_state(all);
}

std::optional<std::uint64_t> StoredKey::lead(std::uint32_t rank, std::uint64_t clock,
                                             const Consistency& consistency, const Required& required) const {
  if (!value_.defined()) return std::nullopt;
  if (consistency.mode == Consistency::Mode::sync) {
    const OfWorker& worker = workers_[rank];
    if (worker.clock - worker.pushes.size() + worker.missed >= clock) return 0;
    return std::nullopt;
  }
  const std::uint64_t mine = clock + workers_[rank].missed;
  std::uint64_t least = mine;
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    if (required[other]) least = std::min(least, progress(other));
  }
  if (consistency.mode == Consistency::Mode::ssp && mine - least > consistency.slack) return std::nullopt;
  return mine - least;
}

void StoredKey::rejoin(std::uint32_t rank, const Required& required) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    if (other != rank && required[other]) least = std::min(least, progress(other));
  }
  if (least != ~std::uint64_t{0} && least > progress(rank)) workers_[rank].missed += least - progress(rank);
}

std::vector<std::uint32_t> StoredKey::behind(std::uint32_t rank, std::uint64_t clock,
                                             const Consistency& consistency, const Required& required) const {
  std::vector<std::uint32_t> ranks;
  const bool in_rounds = consistency.mode == Consistency::Mode::sync;
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    const bool is_behind = in_rounds ? workers_[other].pushes.empty()
                                     : clock + workers_[rank].missed > progress(other) + consistency.slack;
    if (required[other] && is_behind) ranks.push_back(other);
  }
  return ranks;
}

KeyMemory StoredKey::memory() const {
  return {has_value() ? bytes() : 0, std::max(state_bytes_, reserved_state_), waiting_bytes_};
}

bool StoredKey::is_other_whole(const Request& init) const {
  return init.clock != 0 && whole_.bytes != 0 && init.clock != whole_.bytes;
}

StateArrays StoredKey::state() const {
  if (row_optimizer_) return row_optimizer_->state();
  std::map<std::string, NDArray> all;
  if (!optimizer_) return all;
  for (const auto& [name, value] : optimizer_->state()) all[name.substr(name.find('.') + 1)] = value;
  return all;
}

StateArrays StoredKey::shared_state() const {
  state_shared_ = optimizer_ != nullptr;
  return state();
}

void StoredKey::set_state(const UpdateRule& rule, const std::map<std::string, NDArray>& state,
                          std::uint64_t row_bytes) {
  std::unique_ptr<Optimizer> made;
  // Without state no optimizer is made: it may refuse this key.
  if (rule.kind == UpdateRule::Kind::optimizer && !state.empty()) {
    if (set_row_state(rule, state, row_bytes)) return;
    made = create_optimizer(rule.name, rule.params);
    std::map<std::string, NDArray> named;
    for (const auto& [name, value] : state) named[kSoleWeightPrefix + name] = value;
    made->set_state(named, {{kSoleWeight, value_.array()}});
  }
  reset_optimizer();
  optimizer_ = std::move(made);
  count_state();
}

void StoredKey::reset_optimizer() {
  optimizer_ = nullptr;
  row_optimizer_ = nullptr;
  matrix_rows_ = 0;
  reserved_state_ = 0;
  count_state();
}

void StoredKey::count_state() {
  state_bytes_ = row_optimizer_ ? row_optimizer_->bytes() : 0;
  if (!optimizer_) return;
  for (const auto& [name, value] : state())
    state_bytes_ += static_cast<std::uint64_t>(value.size()) * size_of(value.dtype());
}

}  // namespace heddle::kv_detail
