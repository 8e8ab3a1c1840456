// One key of a job on a server, as snapshots and backups have it: its value, and what workers have pushed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/key/key_failures.h"
#include "server/key/key_value.h"
#include "server/key/push.h"

namespace heddle::kv_detail {

// Bytes that a key's value, optimizer state and waiting pushes take.
struct KeyMemory {
  std::uint64_t value = 0;
  std::uint64_t state = 0;    // optimizer state, including what accepted pushes will add
  std::uint64_t waiting = 0;  // pushes that wait for their round
  std::uint64_t total() const { return value + state + waiting; }
};

class StoredKey {
 public:
  // Makes a key without a value and without waiting pushes. Everything else is taken from `saved` and
  // `clocks`.
  StoredKey(const StateKey& saved, const Clocks& clocks);
  StateKey saved(std::uint32_t number) const;

  const std::string& name() const { return name_; }
  DType dtype() const { return value_.dtype(); }
  std::uint64_t bytes() const { return value_.bytes(); }
  bool has_value() const { return value_.defined(); }
  const KeyValue& value() const { return value_; }
  std::uint64_t rounds() const { return rounds_; }
  const PushQueues& pushes() const { return pushes_; }
  std::uint64_t clock(std::uint32_t rank) const { return pushes_.clock(rank); }
  KeyMemory memory() const;

  const WholeValue whole;
  const std::uint32_t place;  // see StateKey::place
  KeyFailures failures{};
  // Sets the key's error. Drops waiting pushes, since other pushes of their rounds have failed or will fail.
  void fail(const std::string& why);
  // Clears the errors that this worker gets. If the key has an error, drops pushes that wait for their round,
  // since other pushes of the round have failed.
  void clear_failure(std::uint32_t rank, const Consistency& consistency);

  void set_value(const NDArray& value) { value_.set(value); }
  void push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
            const Required& required);
  // Does a push that replaces the value by a copy of `bytes`.
  void replace(std::uint32_t rank, std::span<const std::byte> bytes);
  // Completes the rounds for which all required workers have pushed. Returns the number of these rounds.
  std::uint64_t complete_rounds(const UpdateRule& rule, const Required& required);
  // Adds a waiting push that the worker's clock has counted already.
  void add_push(std::uint32_t rank, Push push) { pushes_.add(rank, std::move(push)); }
  // Called when a worker is back that was gone, or another process has taken its rank.
  void join(std::uint32_t rank, const Consistency& consistency, const Required& required);

  void set_optimizer(KeyOptimizer optimizer);
  // Reserves memory: KeyMemory::state is at least `bytes` from now on.
  void reserve_state(std::uint64_t bytes) { reserved_state_ = std::max(reserved_state_, bytes); }
  // Called when the optimizer or its state has changed: reserves memory for state that waiting pushes will
  // add.
  void reserve_for_waiting(const UpdateRule& rule, const StateSize& size);

 private:
  void apply(const UpdateRule& rule, const PushQueues::Round& round);
  void drop_pushes();

  std::string name_;
  KeyValue value_;
  std::uint64_t reserved_state_ = 0, rounds_ = 0;
  PushQueues pushes_;
};

}  // namespace heddle::kv_detail
