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

// Bytes that a key takes, without its overhead.
struct KeyMemory {
  std::uint64_t value = 0;
  std::uint64_t state = 0;    // optimizer's state, with what accepted pushes will add
  std::uint64_t waiting = 0;  // pushes that wait
  std::uint64_t total() const { return value + state + waiting; }
};

class StoredKey {
 public:
  // A key without a value and without pushes that wait. `saved` and `clocks` have all else.
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
  // Sets the error, and drops pushes that wait: pushes that would have completed their round have failed.
  void fail(const std::string& why);
  // If the key has failed, drops pushes that wait for a round, which others have failed to complete.
  void clear_failure(std::uint32_t rank, const Consistency& consistency);

  void set_value(const NDArray& value) { value_.set(value); }
  void push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
            const Required& required);
  // Replaces the value by a push, with a copy of its bytes.
  void replace(std::uint32_t rank, std::span<const std::byte> bytes);
  // Completes the rounds of which all required workers have pushed. Returns how many.
  std::uint64_t complete_rounds(const UpdateRule& rule, const Required& required);
  void add_push(std::uint32_t rank, Push push) { pushes_.add(rank, std::move(push)); }  // its clock has it
  // A worker is back that was gone, or another process is in its place.
  void join(std::uint32_t rank, const Consistency& consistency, const Required& required);

  void set_optimizer(KeyOptimizer optimizer);
  // Reserves memory: at least this much counts as state from now on.
  void reserve_state(std::uint64_t bytes) { reserved_state_ = std::max(reserved_state_, bytes); }
  // Reserves memory for state that waiting pushes will add, after a change of the optimizer or its state.
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
