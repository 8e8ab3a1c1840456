// How a parked thread is woken: where the system wants it, or on another core than its waker's. On an idle machine the system may
// put it on the waker's core, where it waits until the waker sleeps or its time slice ends (see cores.h). To exclude that core
// takes two system calls, and then the thread waits for the other core: some 50 microseconds if that core was idle in a virtual
// machine, a time slice if another program uses it. Which is cheaper depends on the machine, on what else runs there, and on
// whether the waker goes on or sleeps. So both are measured, and the cheaper one is taken.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace heddle::detail {

enum class WakeOn : std::uint8_t { any_core, other_core };

// Thread-safe. Averages may miss a sample of two threads that add theirs at once.
class WakePolicy {
 public:
  // The way that costs less on average; now and then the other one, whose costs may have changed.
  WakeOn choose() noexcept {
    const WakeOn best =
        cost(WakeOn::any_core) <= cost(WakeOn::other_core) ? WakeOn::any_core : WakeOn::other_core;
    if (until_trial_.fetch_sub(1, std::memory_order_relaxed) > 0) return best;
    until_trial_.store(trial_interval_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return other(best);
  }

  // Nanoseconds from the decision to wake a thread until it ran; and until the waker went on.
  void woken_after(WakeOn how, std::uint64_t latency) noexcept { add(latency_, how, latency); }
  void waker_held_up(WakeOn how, std::uint64_t time) noexcept { add(held_up_, how, time); }

 private:
  using Averages = std::array<std::atomic<std::uint32_t>, 2>;
  static constexpr std::uint32_t kMost = 1'000'000;  // a sample of more says no more about the next one
  static constexpr int kFirstInterval = 16,
                       kMostInterval = 1024;  // wakes between two trials of the worse way

  static std::size_t index(WakeOn how) { return static_cast<std::size_t>(how); }
  std::uint32_t cost(WakeOn how) const {
    return latency_[index(how)].load(std::memory_order_relaxed) +
           held_up_[index(how)].load(std::memory_order_relaxed);
  }
  static WakeOn other(WakeOn how) { return how == WakeOn::any_core ? WakeOn::other_core : WakeOn::any_core; }
  void add(Averages& averages, WakeOn how, std::uint64_t nanoseconds) noexcept {
    const std::uint32_t best = cost(other(how));
    const bool trial = cost(how) > best;
    std::atomic<std::uint32_t>& average = averages[index(how)];
    const auto sample = static_cast<std::uint32_t>(std::min<std::uint64_t>(nanoseconds, kMost));
    const std::uint32_t before = average.load(std::memory_order_relaxed);
    // A trial is rare, so it counts for more.
    const std::uint32_t weight = before == 0 ? 1 : trial ? 2 : 8;
    average.store(before - before / weight + sample / weight, std::memory_order_relaxed);
    if (!trial || &averages != &latency_) return;
    const int interval = trial_interval_.load(std::memory_order_relaxed);
    trial_interval_.store(sample < best ? kFirstInterval : std::min(2 * interval, kMostInterval),
                          std::memory_order_relaxed);
  }

  Averages latency_{}, held_up_{};
  std::atomic<int> until_trial_{kFirstInterval}, trial_interval_{kFirstInterval};
};

}  // namespace heddle::detail
