// One key of a job on a server: its value, what workers have pushed, and the pulls that wait.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/compression.h>
#include <heddle/ndarray.h>
#include <heddle/optimizer.h>

#include "server/job/key_failures.h"
#include "server/job/push.h"
#include "server/job/row_updates.h"
#include "server/job/stored_value.h"
#include "server/state/state_size.h"
#include "stores/update_rule.h"
#include "wire/consistency.h"
#include "wire/messages.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

// By rank: whether rounds and clocks wait for the worker, which has neither left nor been dropped.
using Required = std::vector<bool>;

class StoredKey {
 public:
  StoredKey(std::string name, DType dtype, std::uint64_t bytes, std::size_t workers);

  const std::string& name() const { return name_; }
  DType dtype() const { return value_.dtype(); }
  std::uint64_t bytes() const { return value_.bytes(); }
  std::int64_t size() const { return value_.size(); }
  const WholeValue& whole() const { return whole_; }
  void set_whole(const WholeValue& whole) { whole_ = whole; }
  bool is_other_whole(const Request& init) const;      // true if the part is of a value of another size
  std::uint32_t place() const { return init_index_; }  // see StateKey::place
  void set_init_index(std::uint32_t place) { init_index_ = place; }
  bool has_value() const { return value_.defined(); }
  // The present value. It does not change as long as somebody holds the payload.
  Payload value() const { return value_.payload(); }
  void set_value(const NDArray& value) { value_.set(value); }
  std::uint64_t rounds() const { return rounds_; }
  std::uint64_t clock(std::uint32_t rank) const { return workers_[rank].clock; }
  KeyMemory memory() const;
  KeyMemory counted{};      // memory() as JobMemory has counted it
  bool is_tracked = false;  // the key is in Job::keys_with_waiters_
  bool has_waiting() const { return pushes_waiting_ > 0 || !waiting_.empty(); }
  KeyFailures failures{};
  // If the key has failed, drops pushes that wait for a round, which others have failed to complete.
  void clear_failure(std::uint32_t rank, const Consistency& consistency);
  void drop_pushes();
  // Pushes of this worker that wait for their round.
  std::size_t ahead(std::uint32_t rank) const { return workers_[rank].pushes.size(); }
  // Bytes that a key takes besides values, with this length of its name and this number of workers.
  static std::uint64_t overhead(std::size_t name, std::size_t workers);

  // Begins to receive a value, or rows of it, from this worker in pieces. Allocates memory for all pieces.
  void begin_incoming(std::uint32_t rank, const Request& request);
  std::uint64_t incoming_bytes(std::uint32_t rank) const;         // size of the payload
  std::uint64_t incoming_memory_bytes(std::uint32_t rank) const;  // with the memory that it is decoded to
  bool is_incoming(std::uint32_t rank) const { return workers_[rank].incoming != nullptr; }
  std::byte* incoming(std::uint32_t rank, std::uint64_t offset);  // throws MalformedMessage
  // A piece has been received. True: it was the last one.
  bool arrived(std::uint32_t rank, std::uint64_t offset, std::uint64_t bytes);
  NDArray take_incoming(std::uint32_t rank);  // undefined: there was none
  void take_incoming(std::uint32_t rank, Push& push);
  // Checks and decodes a complete payload. Throws MalformedMessage for invalid rows or an invalid encoding.
  void check_incoming(std::uint32_t rank);
  // The rows of the value with these numbers, of `row_bytes` each: (k, n).
  NDArray rows_of_value(const RowList& rows, std::uint64_t row_bytes) const;
  const NDArray& incoming_memory(std::uint32_t rank) const { return workers_[rank].incoming->memory; }

  void push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
            const Required& required);
  // Replaces the value by a push, with a copy into it. False: not done, as a reply still needs the value.
  bool replace(std::uint32_t rank, std::span<const std::byte> bytes);
  // Completes the rounds of which all required workers have pushed. Returns how many.
  int complete_rounds(const UpdateRule& rule, const Required& required);
  // Clocks that the worker is ahead of the slowest required one; empty: it waits, for those of behind().
  std::optional<std::uint64_t> lead(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  std::vector<std::uint32_t> behind(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  std::vector<WaitingRequest>& waiting() { return waiting_; }
  const std::vector<WaitingRequest>& waiting() const { return waiting_; }
  // A worker that was dropped is back: others do not wait for pushes that it missed. Only async and ssp.
  void rejoin(std::uint32_t rank, const Required& required);
  // sync: a new process continues for the worker. The former one may be ahead for some keys only. Pulls of
  // the new one do not wait for its pushes: two such workers could wait for each other.
  void replaced(std::uint32_t rank) { workers_[rank].missed = workers_[rank].pushes.size(); }

  StateArrays state() const;         // the optimizer's, by name: "velocity" and so on
  StateArrays shared_state() const;  // state() that stays as it is while its storage is held
  // `state`: one-dimensional arrays. With `row_bytes` > 0, rows of that size without state take no memory.
  void set_state(const UpdateRule& rule, const StateArrays& state, std::uint64_t row_bytes = 0);
  void reset_optimizer();
  std::uint64_t state_bytes() const { return state_bytes_; }
  // Bytes of all state once a push of a whole value has been applied.
  std::uint64_t whole_state_bytes(const StateSize& size) const;
  // Reserves memory: at least this much counts as state from now on.
  void reserve_state(std::uint64_t bytes) { reserved_state_ = std::max(reserved_state_, bytes); }
  // Bytes of state that received rows will add, those of an incoming push of `rank` or of one that waits.
  std::uint64_t row_state_bytes(std::uint32_t rank, const UpdateRule& rule) const;
  std::uint64_t row_state_bytes(const NDArray& rows, std::int64_t width, const UpdateRule& rule) const;
  // Reserves memory for state that waiting pushes will add, after a change of the optimizer or its state.
  void reserve_for_waiting(const UpdateRule& rule, const StateSize& size);

 private:
  friend class StateSaver;  // defined in state_saver.h
  friend class StateLoader;
  using OfWorker = WorkerPushes;
  void add_push(std::uint32_t rank, Push push);
  void pop_push(std::uint32_t rank);
  void apply(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void apply_whole(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void update(const UpdateRule& rule, const NDArray& sum, const Push& push);
  void set_rows(Push& push, const NDArray& payload, std::uint64_t row_bytes) const;  // in stored_rows.cc
  void apply_rows(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void update_rows(const UpdateRule& rule, const RowValues& sum, const Push& push);
  void update_row_state(const UpdateRule& rule, const RowValues& sum, const Push& push);
  void make_optimizer(const UpdateRule& rule);
  void make_matrix_optimizer(const UpdateRule& rule, std::int64_t rows);
  std::unique_ptr<RowOptimizer> row_optimizer_from(const UpdateRule& rule, const StateArrays& state,
                                                   std::uint64_t row_bytes) const;
  bool set_row_state(const UpdateRule& rule, const StateArrays& state, std::uint64_t row_bytes);
  NDArray shaped(const NDArray& flat) const;
  void own_state();
  void count_state();
  std::uint64_t progress(std::uint32_t rank) const { return workers_[rank].clock + workers_[rank].missed; }

  std::string name_;
  StoredValue value_;
  WholeValue whole_{};
  std::uint32_t init_index_ = StateKey::kNoIndex;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t matrix_rows_ = 0;  // rows of the matrix that optimizer_ updates; 0: it has one dimension
  std::unique_ptr<RowOptimizer> row_optimizer_;  // instead of optimizer_, if only rows were updated
  mutable bool state_shared_ = false;            // a StateSaver may hold the storage of optimizer_'s state
  std::uint64_t state_bytes_ = 0, reserved_state_ = 0, waiting_bytes_ = 0, pushes_waiting_ = 0, rounds_ = 0;
  std::vector<OfWorker> workers_;  // by rank
  std::vector<WaitingRequest> waiting_;
};

}  // namespace heddle::kv_detail
