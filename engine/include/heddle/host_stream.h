// A stream without an accelerator: its work runs on a thread of its own, with delays drawn from a seed, or step by step
// when the caller says so. Code that uses streams can be tested with it on any machine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <heddle/stream.h>

namespace heddle {

struct HostStreamOptions {
  std::uint64_t seed = 0;  // seed of the delays and of the order of steps
  // Before each step the thread yields its core up to most_delay times, and an event may complete after work that
  // was enqueued behind it. 0: everything happens as soon as possible.
  int most_delay = 0;
  bool stepped = false;    // true: no thread; run_one, complete_one and step do the work
  bool calls_back = true;  // false: the engine has to poll for the completion of events, as on a GPU
  bool alone = false;      // true: this and other streams cannot wait for each other
};

class HostStream final : public Stream {
 public:
  explicit HostStream(Device device, Lane lane = Lane::compute, HostStreamOptions options = {});
  // Waits for the work; if stepped, does the work, up to a wait for an event that is not complete.
  ~HostStream() override;

  void enqueue(std::function<void()> fn) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<Event> make_event() override;
  void record(Event& event) override;  // throws InvalidArgument if its last recording has not completed
  bool can_wait_for(const Stream& other) const override;
  void wait(Event& event, std::uint64_t generation) override;
  bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept override;
  bool notify(Event& event, std::uint64_t generation, const Callback& call) override;
  std::shared_ptr<detail::WorkRecorder> record_work() override;
  void replay(detail::RecordedWork& work) override;

  // The steps, for one thread at a time. Each returns true if there was something to do.
  // Takes the oldest item: does its work, or makes the recording or wait. Not a wait for an incomplete event.
  bool run_one();
  bool complete_one();  // completes the oldest event that was recorded
  bool step();          // run_one or complete_one, chosen by the seed: the same calls give the same order
  bool idle();          // whether nothing is enqueued and no event is left to complete
  bool stepped() const { return options_.stepped; }

 private:
  class Completions;
  struct HostEvent;
  struct Item {
    std::function<void()> work{};  // empty: this item waits for `event`, or records it
    std::shared_ptr<Completions> event{};
    std::uint64_t generation = 0;
    bool waits = false;
    bool wakes = false;  // whether the event's completion wakes the thread
  };
  struct Recorded {
    std::shared_ptr<Completions> event;
    std::uint64_t generation;
    std::exception_ptr error;
  };
  struct Wake;

  static HostEvent& ours(Event& event, const char* what);
  void put(Item item);
  Item* front();  // the oldest item; valid until take_front(), since other threads only append items
  Item take_front();
  bool blocked(const Item& item) const;
  void work();
  void delay();
  bool wait_for_work();
  bool one_in(unsigned n) { return std::uniform_int_distribution<unsigned>(1, n)(random_) == 1; }

  const HostStreamOptions options_;
  // random_, recorded_ and failed_ are used only by the thread that does the stream's steps.
  std::mt19937_64 random_;
  std::deque<Recorded> recorded_;  // recorded events that are not complete yet
  std::exception_ptr failed_;      // the first error of the work since the last recording
  std::mutex mutex_;               // guards queue_ and closed_; nothing else is locked while it is held
  std::deque<Item> queue_;
  bool closed_ = false;
  std::shared_ptr<Wake> wake_;
  std::thread thread_;
};

}  // namespace heddle
