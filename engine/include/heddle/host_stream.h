// A stream without an accelerator: its work runs on a thread of its own, later, with delays drawn from a seed, or step
// by step at the caller's command. Whatever holds for streams can be tested with it, on any machine.
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
  std::uint64_t seed = 0;  // of all that is random here
  // How late things may be: the thread gives its core away up to so often before each step, and events complete
  // behind work that was enqueued after them. 0: everything as soon as possible.
  int most_delay = 0;
  bool stepped = false;    // no thread: the work is done by run_one, complete_one and step
  bool calls_back = true;  // false: the completion of events has to be polled for, as on a GPU
  bool alone = false;      // cannot wait for other streams nor they for it, as those of different back ends
};

class HostStream final : public Stream {
 public:
  explicit HostStream(Device device, Lane lane = Lane::compute, HostStreamOptions options = {});
  ~HostStream() override;  // waits for the work; stepped: does it, up to a wait for an event nobody completes

  void enqueue(std::function<void()> fn) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<Event> make_event() override;
  void record(Event& event) override;  // throws InvalidArgument if its last recording has not completed
  bool can_wait_for(const Stream& other) const override;
  void wait(Event& event, std::uint64_t generation) override;
  bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept override;
  bool notify(Event& event, std::uint64_t generation, const Callback& call) override;

  // The steps, for one thread at a time. Each is true if there was something to do.
  bool run_one();       // the next piece of work, recording or wait; not a wait whose event has not completed
  bool complete_one();  // the oldest event that was recorded becomes complete
  bool step();          // one or the other, by the seed: the same calls give the same order
  bool idle();          // nothing is enqueued, nothing to complete
  bool stepped() const { return options_.stepped; }

 private:
  class Point;
  struct HostEvent;
  struct Item {
    std::function<void()> work{};  // or else:
    std::shared_ptr<Point> point{};
    std::uint64_t generation = 0;
    bool waits = false;  // for the event, instead of recording it
    bool rings = false;  // the event will ring the bell
  };
  struct Late {
    std::shared_ptr<Point> point;
    std::uint64_t generation;
    std::exception_ptr error;
  };
  struct Bell;

  static HostEvent& ours(Event& event, const char* what);
  void put(Item item);
  Item* front();  // stays where it is until it is taken: others only append
  Item take_front();
  bool blocked(const Item& item) const;
  void work();
  void dawdle();
  bool sleep();
  bool one_in(unsigned n) { return std::uniform_int_distribution<unsigned>(1, n)(random_) == 1; }

  const HostStreamOptions options_;
  std::mt19937_64 random_;     // of the steps
  std::deque<Late> late_;      // recorded, not complete; of the steps
  std::exception_ptr failed_;  // the first error since the last recording; of the steps
  std::mutex mutex_;           // guards the two below; nothing else is locked while it is held
  std::deque<Item> queue_;
  bool closed_ = false;
  std::shared_ptr<Bell> bell_;  // wakes the thread
  std::thread thread_;
};

}  // namespace heddle
