// One key of a job on a server: its value, what workers have pushed, and the pulls that wait.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/optimizer.h>

#include "server/row_lists.h"
#include "server/row_updates.h"
#include "wire/consistency.h"
#include "wire/messages.h"
#include "wire/update_rule.h"

namespace heddle::kv_detail {

// A push that has come completely.
struct Push {
  NDArray value{};  // undefined: an overwrite of another rank than 0, whose value does not count
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};  // i64 (k), if `value` has (k, n) values of these rows only

  std::uint64_t bytes() const;
};

// An init, a pull or a get_state that cannot be answered yet.
struct WaitingRequest {
  std::uint32_t rank;
  Request request;
  RowList rows{};  // of a pull of some rows
};

// Which workers of the job a round or a clock waits for: neither dropped nor gone. By rank.
using Required = std::vector<bool>;

class StoredKey {
 public:
  StoredKey(std::string name, DType dtype, std::uint64_t bytes, std::size_t workers);

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  std::uint64_t bytes() const { return bytes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_ / size_of(dtype_)); }
  bool has_value() const { return value_ != nullptr; }
  // A version of the value; it stays as it is as long as somebody holds it.
  const std::shared_ptr<const NDArray>& value() const { return value_; }
  void set_value(NDArray value);
  std::uint64_t rounds() const { return rounds_; }
  std::uint64_t clock(std::uint32_t rank) const { return clocks_[rank]; }
  std::uint64_t waiting_bytes() const;
  // An error of an update, which pushes and pulls get until clear_errors; empty: none.
  const std::string& failure() const { return failure_; }
  void set_failure(const std::string& why) { failure_ = why; }
  void clear_failure();

  // A value, or rows of it, that this worker sends in pieces: begun with memory for all of them, at which they arrive in
  // order.
  void begin_incoming(std::uint32_t rank, const Request& request);
  std::uint64_t incoming_bytes(std::uint32_t rank) const;
  bool is_incoming(std::uint32_t rank) const { return incoming_[rank].memory.defined(); }
  std::byte* incoming(std::uint32_t rank, std::uint64_t offset);  // throws MalformedMessage
  // The piece is there. True: it was the last one.
  bool arrived(std::uint32_t rank, std::uint64_t offset, std::uint64_t bytes);
  NDArray take_incoming(std::uint32_t rank) { return std::exchange(incoming_[rank], {}).memory; }
  // The same, of a push.
  void take_incoming(std::uint32_t rank, Push& push);
  // Throws MalformedMessage for rows that are none of the value.
  void check_incoming(std::uint32_t rank) const;
  // (k, n): what the value has in these rows, of `row_bytes` each.
  NDArray rows_of_value(const RowList& rows, std::uint64_t row_bytes) const;
  const NDArray& incoming_memory(std::uint32_t rank) const { return incoming_[rank].memory; }

  void push(std::uint32_t rank, Push push, const Consistency& consistency, const UpdateRule& rule,
            const Required& required);
  // A push at once that replaces the value, without memory of its own. False: a reply still needs the value.
  bool replace(std::uint32_t rank, std::span<const std::byte> bytes);
  // Completes the rounds of which all required workers have pushed. Returns how many.
  int complete_rounds(const UpdateRule& rule, const Required& required);
  // Nothing: it has to wait. Else by how many clocks the worker is ahead of the slowest required one.
  std::optional<std::uint64_t> lead(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  std::vector<WaitingRequest>& waiting() { return waiting_; }
  // A worker that was dropped is back: nobody waits for the pushes that it has missed.
  void rejoin(std::uint32_t rank, const Required& required);

  std::map<std::string, NDArray> state() const;  // of the optimizer: "velocity" and so on
  // state: one-dimensional. `row_bytes`, if it is not 0, says what rows are: of those without state none is kept.
  void set_state(const UpdateRule& rule, const std::map<std::string, NDArray>& state,
                 std::uint64_t row_bytes = 0);
  void reset_optimizer();
  std::uint64_t state_bytes() const { return state_bytes_; }

 private:
  friend class StateSaver;  // state_stream.h
  friend class StateLoader;
  struct Incoming {
    NDArray memory{};
    std::uint64_t filled = 0, row_bytes = 0;
  };
  void apply(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void update(const UpdateRule& rule, const NDArray& sum, const Push& push);
  // In stored_rows.cc: what is about rows.
  void set_rows(Push& push, const NDArray& payload, std::uint64_t row_bytes) const;
  void apply_rows(const UpdateRule& rule, const std::vector<const Push*>& pushes);
  void update_rows(const UpdateRule& rule, const RowValues& sum, const Push& push);
  void update_row_state(const UpdateRule& rule, const RowValues& sum, const Push& push);
  void make_optimizer(const UpdateRule& rule);
  void make_matrix_optimizer(const UpdateRule& rule, std::int64_t rows);
  std::unique_ptr<RowOptimizer> row_optimizer_from(const UpdateRule& rule,
                                                   const std::map<std::string, NDArray>& state,
                                                   std::uint64_t row_bytes) const;
  bool set_row_state(const UpdateRule& rule, const std::map<std::string, NDArray>& state,
                     std::uint64_t row_bytes);
  NDArray shaped(const NDArray& flat) const;
  NDArray& to_change();
  void count_state();
  std::uint64_t progress(std::uint32_t rank) const { return clocks_[rank] + missed_[rank]; }

  std::string name_;
  DType dtype_;
  std::uint64_t bytes_;
  std::shared_ptr<const NDArray> value_;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t matrix_rows_ = 0;  // of the value as optimizer_ knows it; 0: it has one dimension
  std::unique_ptr<RowOptimizer> row_optimizer_;  // instead, if only rows were updated
  std::uint64_t state_bytes_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<std::uint64_t> clocks_;    // by rank: pushes that have come
  std::vector<std::uint64_t> missed_;    // by rank: pushes that nobody waits for
  std::vector<std::list<Push>> pushes_;  // sync: by rank, those of later rounds; empty, it has no memory
  std::vector<Incoming> incoming_;       // by rank
  std::vector<WaitingRequest> waiting_;
  std::string failure_;
};

}  // namespace heddle::kv_detail
