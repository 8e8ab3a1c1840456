#include <condition_variable>
#include <cstring>
#include <string>
#include <vector>

#include <heddle/error.h>
#include <heddle/host_stream.h>

#include "stream/recorded_work.h"
#include "stream/stream_work.h"

namespace heddle {

// Up to which generation an event is complete, and the callbacks for the next one.
class HostStream::Completions {
 public:
  bool complete(std::uint64_t generation, std::exception_ptr* error = nullptr) const {
    std::lock_guard guard(mutex_);
    if (generation == completed_ && error) *error = error_;
    return generation <= completed_;
  }

  void on_complete(std::uint64_t generation, const Callback& call) {
    std::exception_ptr error;
    {
      std::lock_guard guard(mutex_);
      if (generation > completed_) {
        callbacks_.push_back(call);
        return;
      }
      if (generation == completed_) error = error_;
    }
    call(error);
  }

  void finish(std::uint64_t generation, const std::exception_ptr& error) {
    std::vector<Callback> calls;
    {
      std::lock_guard guard(mutex_);
      completed_ = generation;
      error_ = error;
      calls.swap(callbacks_);
    }
    for (const Callback& call : calls) call(error);
  }

 private:
  mutable std::mutex mutex_;  // guards all below; nothing else is locked while it is held
  std::uint64_t completed_ = 0;
  std::exception_ptr error_;
  std::vector<Callback> callbacks_;  // callbacks for the next generation
};

// An enqueued wait may outlive its event, as on a GPU, and shares the event's Completions.
struct HostStream::HostEvent final : Event {
  using Event::next_generation;
  const std::shared_ptr<Completions> completions = std::make_shared<Completions>();
};

// Wakes the stream's thread: wait() returns once after one or more calls of set(). Shared, because an event may call
// set() when the stream is gone.
struct HostStream::Wake {
  void set() {
    std::lock_guard guard(mutex);
    is_set = true;
    condition.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex);
    condition.wait(lock, [this] { return is_set; });
    is_set = false;
  }
  std::mutex mutex;  // guards is_set; nothing else is locked while it is held
  std::condition_variable condition;
  bool is_set = false;
};

namespace {

HostStreamOptions checked(HostStreamOptions options) {
  if (options.most_delay >= 0) return options;
  throw InvalidArgument("HostStream: most_delay is " + std::to_string(options.most_delay) +
                        "; it must not be negative");
}

}  // namespace

namespace {

// The functions that replay() enqueues.
struct HostWork : detail::RecordedWork {
  std::vector<std::function<void()>> steps;
};

class HostRecorder final : public detail::WorkRecorder {
 public:
  explicit HostRecorder(const Stream& of) : stream_(of.device(), of.lane()) {}
  Stream& stream() override { return stream_; }
  std::shared_ptr<detail::RecordedWork> finish() override { return std::move(stream_.work); }

 private:
  struct Recording final : detail::RecorderStream {
    using RecorderStream::RecorderStream;
    void enqueue(std::function<void()> fn) override { work->steps.push_back(std::move(fn)); }
    void copy(void* to, const void* from, std::size_t bytes) override {
      work->steps.emplace_back([=] { std::memcpy(to, from, bytes); });
    }
    std::shared_ptr<HostWork> work = std::make_shared<HostWork>();
  };
  Recording stream_;
};

}  // namespace

HostStream::HostEvent& HostStream::ours(Event& event, const char* what) {
  if (auto* host = dynamic_cast<HostEvent*>(&event)) return *host;
  throw InvalidArgument(std::string(what) + ": the event is of another kind of stream");
}

HostStream::HostStream(Device device, Lane lane, HostStreamOptions options)
    : Stream(device, lane),
      options_(checked(options)),
      random_(options.seed),
      wake_(std::make_shared<Wake>()) {
  if (!options_.stepped) thread_ = std::thread([this] { work(); });
}

HostStream::~HostStream() {
  if (options_.stepped) {
    while (step()) {
    }
    return;
  }
  {
    std::lock_guard guard(mutex_);
    closed_ = true;
  }
  wake_->set();
  thread_.join();
}

void HostStream::put(Item item) {
  {
    std::lock_guard guard(mutex_);
    queue_.push_back(std::move(item));
  }
  wake_->set();
}

void HostStream::enqueue(std::function<void()> fn) {
  if (!fn) throw InvalidArgument("enqueue: the function is empty");
  put({.work = std::move(fn)});
}

void HostStream::copy(void* to, const void* from, std::size_t bytes) {
  put({.work = [=] { std::memcpy(to, from, bytes); }});
}

std::unique_ptr<Event> HostStream::make_event() { return std::make_unique<HostEvent>(); }

void HostStream::record(Event& event) {
  HostEvent& recorded = ours(event, "record");
  if (!recorded.completions->complete(recorded.generation())) {
    throw InvalidArgument("record: the event was recorded before and has not completed since");
  }
  put({.event = recorded.completions, .generation = recorded.next_generation()});
}

bool HostStream::can_wait_for(const Stream& other) const {
  const auto* host = dynamic_cast<const HostStream*>(&other);
  return host && !host->options_.alone && !options_.alone;
}

void HostStream::wait(Event& event, std::uint64_t generation) {
  put({.event = ours(event, "wait").completions, .generation = generation, .waits = true});
}

bool HostStream::poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept {
  return static_cast<HostEvent&>(event).completions->complete(generation, &error);
}

bool HostStream::notify(Event& event, std::uint64_t generation, const Callback& call) {
  if (!options_.calls_back) return false;
  static_cast<HostEvent&>(event).completions->on_complete(generation, call);
  return true;
}

std::shared_ptr<detail::WorkRecorder> HostStream::record_work() {
  return std::make_shared<HostRecorder>(*this);
}

void HostStream::replay(detail::RecordedWork& work) {
  for (const std::function<void()>& step : static_cast<HostWork&>(work).steps)
    put({.work = [&step] { step(); }});
}

HostStream::Item* HostStream::front() {
  std::lock_guard guard(mutex_);
  return queue_.empty() ? nullptr : &queue_.front();
}

HostStream::Item HostStream::take_front() {
  std::lock_guard guard(mutex_);
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

bool HostStream::blocked(const Item& item) const {
  return item.waits && !item.event->complete(item.generation);
}

bool HostStream::run_one() {
  const Item* next = front();
  if (!next || blocked(*next)) return false;
  const Item item = take_front();
  if (item.work) {
    const detail::InStreamWork inside;
    try {
      item.work();
    } catch (...) {
      if (!failed_) failed_ = std::current_exception();
    }
  } else if (!item.waits) {
    recorded_.push_back({item.event, item.generation, std::exchange(failed_, nullptr)});
  }
  return true;
}

bool HostStream::complete_one() {
  if (recorded_.empty()) return false;
  const Recorded oldest = std::move(recorded_.front());
  recorded_.pop_front();
  oldest.event->finish(oldest.generation, oldest.error);
  return true;
}

bool HostStream::step() {
  const bool complete_first = options_.most_delay == 0 || one_in(2);
  if (complete_first && complete_one()) return true;
  return run_one() || complete_one();
}

bool HostStream::idle() { return !front() && recorded_.empty(); }

void HostStream::delay() {
  for (auto n = random_() % static_cast<unsigned>(options_.most_delay + 1); n > 0; --n)
    std::this_thread::yield();
}

// Waits until there may be something to do; false if there never will be. No work is missed: enqueueing calls set().
bool HostStream::wait_for_work() {
  Item* next = front();
  if (!next) {
    std::lock_guard guard(mutex_);
    if (queue_.empty() && closed_) return false;
  } else if (next->waits && !std::exchange(next->wakes, true)) {
    next->event->on_complete(next->generation, [wake = wake_](const std::exception_ptr&) { wake->set(); });
  }
  wake_->wait();
  return true;
}

void HostStream::work() {
  do {
    delay();
  } while (step() || wait_for_work());
}

}  // namespace heddle
