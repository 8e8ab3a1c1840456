// A push, and the record of the pushes of a key: how often each worker has pushed, and pushes that wait for
// their round.
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

// For each worker, by rank: whether rounds and clocks wait for it, because it has neither left nor been
// dropped.
using Required = std::vector<bool>;

// A push that has been received completely.
struct Push {
  NDArray value{};  // undefined: an overwriting push of a rank other than 0, which sends no value
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};  // i64 (k): numbers of the rows in `value` (k, n); undefined: `value` is a whole value
  std::uint64_t state_bytes = 0;  // bytes of optimizer state that the rows will need in addition

  std::uint64_t bytes() const;
};

class PushQueues {
 public:
  struct OfWorker {
    std::uint64_t clock = 0;  // number of pushes of the key that the server has had from the worker
    // async, ssp: number of pushes that the worker has missed, and that others do not wait for. sync: number
    // of rounds that the worker's pulls do not wait for.
    std::uint64_t missed = 0;
    std::list<Push> waiting{};  // sync: pushes of later rounds; an empty list allocates nothing
  };
  // The first waiting push of each worker that has one, by rank.
  using Round = std::vector<std::pair<std::uint32_t, const Push*>>;

  explicit PushQueues(const Clocks& clocks);
  const std::vector<OfWorker>& workers() const { return workers_; }
  std::uint64_t clock(std::uint32_t rank) const { return workers_[rank].clock; }
  // Number of pushes of the worker that wait for their round.
  std::size_t ahead(std::uint32_t rank) const { return workers_[rank].waiting.size(); }
  bool any() const { return count_ > 0; }         // whether a push of any worker waits
  std::uint64_t bytes() const { return bytes_; }  // bytes of all pushes that wait
  Clocks clocks() const;

  void tick(std::uint32_t rank) { ++workers_[rank].clock; }  // counts a push of the worker
  void add(std::uint32_t rank, Push push);
  void pop(std::uint32_t rank);
  // The pushes of the next round; empty: a required worker has not pushed yet.
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

  // lead(): number of pushes that the worker, after `clock` pushes, is ahead of the slowest required worker;
  // empty: its pull has to wait for the workers that behind() names.
  std::optional<std::uint64_t> lead(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  std::vector<std::uint32_t> behind(std::uint32_t rank, std::uint64_t clock, const Consistency& consistency,
                                    const Required& required) const;
  // async, ssp: called when a worker that was dropped is back. Others do not wait for pushes that it has
  // missed.
  void rejoin(std::uint32_t rank, const Required& required);
  // sync: called when a new process takes the worker's rank. The former process may have pushed for later
  // rounds, of some keys only. Pulls of the new process do not wait for these rounds, since two such workers
  // could wait for each other.
  void replaced(std::uint32_t rank) { workers_[rank].missed = ahead(rank); }
  void forget_missed();

 private:
  std::uint64_t progress(std::uint32_t rank) const { return workers_[rank].clock + workers_[rank].missed; }

  std::vector<OfWorker> workers_;  // indexed by rank
  std::uint64_t bytes_ = 0, count_ = 0;
};

}  // namespace heddle::kv_detail
