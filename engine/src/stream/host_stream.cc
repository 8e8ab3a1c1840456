#include <condition_variable>
#include <cstring>
#include <string>
#include <vector>

#include <heddle/error.h>
#include <heddle/host_stream.h>

#include "stream/stream_work.h"

namespace heddle {

// Complete up to a generation, with whoever wants to be told of the next one.
class HostStream::Point {
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
  std::vector<Callback> callbacks_;  // for the generation that has not completed
};

// Waits that were enqueued outlive it, as they do on a GPU: they share the point.
struct HostStream::HostEvent final : Event {
  using Event::next_generation;
  const std::shared_ptr<Point> point = std::make_shared<Point>();
};

// Rings until it is heard. Shared, because an event may ring it when its stream is gone.
struct HostStream::Bell {
  void ring() {
    std::lock_guard guard(mutex);
    rings = true;
    heard.notify_one();
  }
  void listen() {
    std::unique_lock lock(mutex);
    heard.wait(lock, [this] { return rings; });
    rings = false;
  }
  std::mutex mutex;  // guards rings; nothing else is locked while it is held
  std::condition_variable heard;
  bool rings = false;
};

namespace {

HostStreamOptions checked(HostStreamOptions options) {
  if (options.most_delay >= 0) return options;
  throw InvalidArgument("HostStream: most_delay is " + std::to_string(options.most_delay) +
                        "; it must not be negative");
}

}  // namespace

HostStream::HostEvent& HostStream::ours(Event& event, const char* what) {
  if (auto* host = dynamic_cast<HostEvent*>(&event)) return *host;
  throw InvalidArgument(std::string(what) + ": the event is of another kind of stream");
}

HostStream::HostStream(Device device, Lane lane, HostStreamOptions options)
    : Stream(device, lane),
      options_(checked(options)),
      random_(options.seed),
      bell_(std::make_shared<Bell>()) {
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
  bell_->ring();
  thread_.join();
}

void HostStream::put(Item item) {
  {
    std::lock_guard guard(mutex_);
    queue_.push_back(std::move(item));
  }
  bell_->ring();
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
  if (!recorded.point->complete(recorded.generation())) {
    throw InvalidArgument("record: the event was recorded before and has not completed since");
  }
  put({.point = recorded.point, .generation = recorded.next_generation()});
}

bool HostStream::can_wait_for(const Stream& other) const {
  const auto* host = dynamic_cast<const HostStream*>(&other);
  return host && !host->options_.alone && !options_.alone;
}

void HostStream::wait(Event& event, std::uint64_t generation) {
  put({.point = ours(event, "wait").point, .generation = generation, .waits = true});
}

bool HostStream::poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept {
  return static_cast<HostEvent&>(event).point->complete(generation, &error);
}

bool HostStream::notify(Event& event, std::uint64_t generation, const Callback& call) {
  if (!options_.calls_back) return false;
  static_cast<HostEvent&>(event).point->on_complete(generation, call);
  return true;
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
  return item.waits && !item.point->complete(item.generation);
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
    late_.push_back({item.point, item.generation, std::exchange(failed_, nullptr)});
  }
  return true;
}

bool HostStream::complete_one() {
  if (late_.empty()) return false;
  const Late oldest = std::move(late_.front());
  late_.pop_front();
  oldest.point->finish(oldest.generation, oldest.error);
  return true;
}

bool HostStream::step() {
  const bool complete_first = options_.most_delay == 0 || one_in(2);
  if (complete_first && complete_one()) return true;
  return run_one() || complete_one();
}

bool HostStream::idle() { return !front() && late_.empty(); }

void HostStream::dawdle() {
  for (auto n = random_() % static_cast<unsigned>(options_.most_delay + 1); n > 0; --n)
    std::this_thread::yield();
}

// Until there may be something to do; false if there never will be. Whatever comes after the last look rings the bell.
bool HostStream::sleep() {
  Item* next = front();
  if (!next) {
    std::lock_guard guard(mutex_);
    if (queue_.empty() && closed_) return false;
  } else if (next->waits && !std::exchange(next->rings, true)) {
    next->point->on_complete(next->generation, [bell = bell_](const std::exception_ptr&) { bell->ring(); });
  }
  bell_->listen();
  return true;
}

void HostStream::work() {
  do {
    dawdle();
  } while (step() || sleep());
}

}  // namespace heddle
