// Ranks as fibers of one thread, on a virtual clock that stands still while they run: a seed determines the
// whole run.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <ucontext.h>
#include <vector>

namespace heddle::test {

// Thrown in a killed fiber from its sleep.
struct Killed {};

class Simulation {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = Clock::duration;

  explicit Simulation(std::uint64_t seed) : random_(seed) {}
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Time now() const { return now_; }
  // The only source of randomness.
  std::uint64_t below(std::uint64_t end) { return end ? random_() % end : 0; }
  bool one_in(std::uint64_t chances) { return below(chances) == 0; }
  Duration delay(Duration most) { return Duration(below(static_cast<std::uint64_t>(most.count()) + 1)); }

  // Starts a fiber after a delay; returns its number, from 0.
  int start(std::function<void()> body, Duration after);
  void at(Time when, std::function<void()> event);
  // Wakes a fiber that sleeps, or its next sleep.
  void wake(int fiber);
  void kill(int fiber);
  bool ended(int fiber) const { return fibers_[static_cast<std::size_t>(fiber)]->ended; }
  // Called in a fiber: sleeps until it is woken, or `until`.
  void sleep();
  void sleep_until(Time until);

  // Runs until no event is left. Returns false if fibers are left, which sleep for ever.
  bool run();

 private:
  struct Fiber {
    std::function<void()> body;
    ucontext_t context{};
    std::unique_ptr<char[]> stack{};
    std::array<char, 16> exceptions{};  // the C++ runtime's per-thread exception state
    void* sanitizer = nullptr;
    std::uint64_t turn = 0;  // number of this sleep; a wake for an earlier one is ignored
    bool killed = false, ended = false;
  };
  struct Event {
    Time when;
    std::uint64_t order;  // order of events at the same time
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  static void enter(unsigned low, unsigned high);
  void resume(Fiber& fiber);
  void switch_to(Fiber* next);
  void resume_at(Fiber& fiber, Time when);
  Fiber& current() { return *current_; }

  std::mt19937_64 random_;
  Time now_{std::chrono::hours(1)};
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber main_;
  Fiber* current_ = &main_;
};

}  // namespace heddle::test
