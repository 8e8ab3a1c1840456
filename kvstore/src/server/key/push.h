// A push, and what workers have pushed to a key: how often, and the pushes that wait for their round.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include <heddle/ndarray.h>

#include "wire/consistency.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

// By rank: whether rounds and clocks wait for the worker, which has neither left nor been dropped.
using Required = std::vector<bool>;

// A push that has been received completely.
struct Push {
  NDArray value{};  // undefined: an overwrite of a rank other than 0, which has no value
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};                 // i64 (k): the rows that `value` (k, n) has; undefined: `value` is whole
  std::uint64_t state_bytes = 0;  // bytes of state that `rows` will need, and do not have yet

  std::uint64_t bytes() const;
};

class PushQueues {
 public:
  struct OfWorker {
    std::uint64_t clock = 0;  // pushes that the server has had
    // Pushes that others do not wait for; sync: rounds that its pulls do not wait for
    std::uint64_t missed = 0;
    std::list<Push> waiting{};  // sync: pushes of later rounds; an empty list allocates nothing
  };
  using Round = std::vector<std::pair<std::uint32_t, const Push*>>;  // the first push of each rank

  explicit PushQueues(const Clocks& clocks);
  const std::vector<OfWorker>& workers() const { return workers_; }
  std::uint64_t clock(std::uint32_t rank) const { return workers_[rank].clock; }
  std::size_t ahead(std::uint32_t rank) const { return workers_[rank].waiting.size(); }  // pushes that wait
  bool any() const { return count_ > 0; }                                                // pushes wait
  std::uint64_t bytes() const { return bytes_; }  // bytes of pushes that wait
  Clocks clocks() const;

  void tick(std::uint32_t rank) { ++workers_[rank].clock; }  // the worker has pushed
  void add(std::uint32_t rank, Push push);
  void pop(std::uint32_t rank);
  // The next round; empty: a required worker has not pushed.
  Round next_round(const Required& required) const;
  template <class F> void change_each(F change) {
    for (OfWorker& worker : workers_) {
      for (Push& push : worker.waiting) {
        bytes_ -= push.state_bytes;
        change(push);
        bytes_ += push.state_bytes;
      }
    }
  }

  // Clocks that the worker is ahead of the slowest required one; empty: it waits, for those of behind().
  std::optional<std::uint64_t> lead(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  std::vector<std::uint32_t> behind(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  // A worker that was dropped is back: others do not wait for pushes that it missed. Only async and ssp.
  void rejoin(std::uint32_t rank, const Required& required);
  // sync: a new process continues for the worker. The former one may be ahead for some keys only. Pulls of
  // the new one do not wait for its pushes: two such workers could wait for each other.
  void replaced(std::uint32_t rank) { workers_[rank].missed = ahead(rank); }
  void forget_missed();

 private:
  std::uint64_t progress(std::uint32_t rank) const { return workers_[rank].clock + workers_[rank].missed; }

  std::vector<OfWorker> workers_;  // by rank
  std::uint64_t bytes_ = 0, count_ = 0;
};

}  // namespace heddle::kv_detail
