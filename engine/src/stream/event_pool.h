// The events of one stream, for reuse, since a GPU's driver takes longer to make an event than to record it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <heddle/stream.h>

namespace heddle::detail {

// Thread-safe. Events live as long as the pool, so polling an event after give_back() is harmless: the polled
// generation is complete.
class EventPool {
 public:
  // Throws what make_event throws.
  Event* take(Stream& stream) {
    {
      std::lock_guard guard(mutex_);
      if (!free_.empty()) {
        Event* event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    std::unique_ptr<Event> made = stream.make_event();
    std::lock_guard guard(mutex_);
    all_.push_back(std::move(made));
    free_.reserve(all_.capacity());  // reserved now, so that give_back() does not allocate
    return all_.back().get();
  }

  // Call when the event has completed, or if it was never recorded.
  void give_back(Event* event) noexcept {
    std::lock_guard guard(mutex_);
    free_.push_back(event);
  }

  std::size_t size() const {
    std::lock_guard guard(mutex_);
    return all_.size();
  }

 private:
  mutable std::mutex mutex_;  // guards all below; nothing else is locked while it is held
  std::vector<std::unique_ptr<Event>> all_;
  std::vector<Event*> free_;
};

}  // namespace heddle::detail
