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

// What the sleep of a killed fiber throws.
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
  // A random number below `end`, from the simulation's only source of randomness.
  std::uint64_t below(std::uint64_t end) { return end ? random_() % end : 0; }
  bool one_in(std::uint64_t chances) { return below(chances) == 0; }
  Duration delay(Duration most) { return Duration(below(static_cast<std::uint64_t>(most.count()) + 1)); }

  // Starts a fiber after a delay. Returns the fiber's number; numbers begin at 0.
  int start(std::function<void()> body, Duration after);
  void at(Time when, std::function<void()> event);
  // Wakes a fiber that sleeps. If the fiber is awake its next sleep returns at once.
  void wake(int fiber);
  void kill(int fiber);
  bool ended(int fiber) const { return fibers_[static_cast<std::size_t>(fiber)]->ended; }
  // sleep() and sleep_until() are called in a fiber. They return when the fiber is woken, sleep_until() also
  // at `until`.
  void sleep();
  void sleep_until(Time until);

  // Handles events until none is left. Returns false if fibers then sleep for ever.
  bool run();

 private:
  struct Fiber {
    std::function<void()> body;
    ucontext_t context{};
    std::unique_ptr<char[]> stack{};
    std::array<char, 16> exceptions{};  // the fiber's copy of the C++ runtime's per-thread exception state
    void* sanitizer = nullptr;
    // Number of the fiber's present sleep; an event that would end an earlier sleep is ignored.
    std::uint64_t turn = 0;
    bool killed = false, ended = false;
  };
  struct Event {
    Time when;
    std::uint64_t order;  // the order in which events of one time are handled
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
