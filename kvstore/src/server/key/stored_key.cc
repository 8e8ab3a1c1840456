#include "server/key/stored_key.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <heddle/number_text.h>

namespace heddle::kv_detail {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool rows_fit(const Push& a, const Push& b) {
  return !a.rows.defined() || !b.rows.defined() || a.value.shape()[1] == b.value.shape()[1];
}

bool fit(const Push& a, const Push& b) {
  return a.overwrite == b.overwrite && same(a.lr, b.lr) && same(a.scale, b.scale) && rows_fit(a, b);
}

std::string describe(const Push& push) {
  if (push.overwrite) return "an assignment";
  return "lr " + (std::isnan(push.lr) ? "of the optimizer" : number_text(push.lr)) + ", scale " +
         number_text(push.scale) +
         (push.rows.defined() ? ", rows of " + std::to_string(push.value.shape()[1]) : "");
}

}  // namespace

StoredKey::StoredKey(const StateKey& saved, const Clocks& clocks)
    : whole{.bytes = saved.whole_bytes, .rows = saved.whole_rows},
      place(saved.place),
      name_(saved.name),
      value_(saved.dtype, saved.bytes),
      rounds_(saved.rounds),
      pushes_(clocks) {
  if (!saved.failure.empty()) failures.set(saved.failure);
  for (const StateKey::Failure& one : saved.failures)
    failures.of_pushes[one.rank] = std::make_shared<const std::string>(one.why);
}

StateKey StoredKey::saved(std::uint32_t number) const {
  std::vector<StateKey::Failure> of_pushes;
  for (const auto& [rank, why] : failures.of_pushes) of_pushes.push_back({rank, *why});
  return {.name = name_,
          .dtype = dtype(),
          .number = number,
          .bytes = bytes(),
          .rounds = rounds_,
          .whole_bytes = whole.bytes,
          .whole_rows = whole.rows,
          .failure = failures.any() ? *failures.why : "",
          .place = place,
          .failures = std::move(of_pushes)};
}

void StoredKey::fail(const std::string& why) {
  failures.set(why);
  drop_pushes();
}

void StoredKey::clear_failure(std::uint32_t rank, const Consistency& consistency) {
  if (failures.any()) drop_pushes();
  failures.of_pushes.erase(rank);
  if (!failures.any()) return;
  if (consistency.mode == Consistency::Mode::sync) pushes_.forget_missed();
  failures.why = nullptr;
}

void StoredKey::drop_pushes() {
  for (std::uint32_t rank = 0; rank < pushes_.workers().size(); ++rank) {
    if (pushes_.ahead(rank) > 0) failures.push_failed(rank);
    while (pushes_.ahead(rank) > 0) pushes_.pop(rank);
  }
  reserved_state_ = 0;
}

void StoredKey::push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
                     const Required& required) {
  pushes_.tick(rank);
  if (consistency.mode == Consistency::Mode::sync) {
    pushes_.add(rank, std::move(push));
    complete_rounds(rule, required);
  } else if (!push.overwrite || push.value.defined()) {
    apply(rule, {{rank, &push}});
    failures.push_failed(rank);
  }
}

void StoredKey::replace(std::uint32_t rank, std::span<const std::byte> bytes) {
  value_.overwrite(bytes);
  pushes_.tick(rank);
}

void StoredKey::join(std::uint32_t rank, const Consistency& consistency, const Required& required) {
  if (consistency.mode == Consistency::Mode::sync) return pushes_.replaced(rank);
  pushes_.rejoin(rank, required);
}

std::uint64_t StoredKey::complete_rounds(const UpdateRule& rule, const Required& required) {
  std::uint64_t completed = 0;
  while (has_value() && pushes_.any()) {
    const PushQueues::Round round = pushes_.next_round(required);
    if (round.empty()) break;
    apply(rule, round);
    for (const auto& [rank, push] : round) {
      pushes_.pop(rank);
      failures.push_failed(rank);
    }
    ++rounds_;
    ++completed;
  }
  return completed;
}

// Applies the pushes of a round. If they do not fit together, they change nothing, and the key gets an error.
void StoredKey::apply(const UpdateRule& rule, const PushQueues::Round& round) {
  const auto& [first_rank, first] = round[0];
  std::vector<const Push*> pushes;
  for (const auto& [rank, push] : round) {
    if (!fit(*push, *first))
      return failures.set("key " + name_ + ", round " + std::to_string(rounds_ + 1) + ": worker " +
                          std::to_string(first_rank) + " pushed with " + describe(*first) + ", worker " +
                          std::to_string(rank) + " with " + describe(*push) + "; the round changed nothing");
    pushes.push_back(push);
  }
  try {
    value_.apply(rule, pushes);
  } catch (const std::exception& error) {
    failures.set("key " + name_ + ": " + error.what());
  }
}

KeyMemory StoredKey::memory() const {
  return {has_value() ? bytes() : 0, std::max(value_.optimizer().bytes(), reserved_state_), pushes_.bytes()};
}

void StoredKey::set_optimizer(KeyOptimizer optimizer) {
  value_.set_optimizer(std::move(optimizer));
  reserved_state_ = 0;
}

void StoredKey::reserve_for_waiting(const UpdateRule& rule, const StateSize& state) {
  const KeyOptimizer& optimizer = value_.optimizer();
  pushes_.change_each([&](Push& push) {
    if (push.rows.defined()) {
      push.state_bytes =
          optimizer.bytes_for_rows(rule, push.rows, push.value.shape()[1], value_.size(), dtype());
    } else if (!push.overwrite) {
      reserve_state(optimizer.bytes_for_whole(state, value_.size()));
    }
  });
}

}  // namespace heddle::kv_detail
