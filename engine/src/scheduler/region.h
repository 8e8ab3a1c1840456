// A parallel loop that idle workers may join.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/spin_lock.h"
#include "op/op_node.h"

namespace heddle::detail {

class Region {
 public:
  using Body = std::function<void(std::int64_t, std::int64_t)>;
  Region(std::int64_t count, std::int64_t grain, const Body& body, OpNode* owner)
      : op(owner), count_(count), grain_(grain), body_(body) {}

  void work() noexcept;  // runs chunks until none is left
  bool exhausted() const { return next_.load(std::memory_order_relaxed) >= count_; }
  // By the thread that made it, after its own work: true if all guests left within a moment; waits until they have;
  // rethrows the first exception.
  bool quiet_soon() const;
  void await_guests() const;
  void rethrow() const;

  OpNode* const op;  // that runs the loop

 private:
  friend class Regions;
  const std::int64_t count_, grain_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::uint32_t> guests_{0};  // workers inside
  SpinLock error_lock_;                   // guards error_
  std::exception_ptr error_;
};

// The loops that still have chunks to give.
class Regions {
 public:
  void open(const std::shared_ptr<Region>& region);
  void close(const Region* region);   // no guest enters any more; the second call does nothing
  std::shared_ptr<Region> enter();    // as a guest; null if there is none
  static void leave(Region& region);  // as a guest
  bool empty() const { return open_.load(std::memory_order_seq_cst) == 0; }

 private:
  SpinLock lock_;  // guards regions_
  std::vector<std::shared_ptr<Region>> regions_;
  std::atomic<std::size_t> open_{0};
};

}  // namespace heddle::detail
