// The progress sources of an engine, see progress_source.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/progress_source.h>

namespace heddle::detail {

// Thread-safe.
class ProgressSources {
 public:
  void add(std::weak_ptr<ProgressSource> progress_source) {
    std::lock_guard guard(mutex_);
    std::erase_if(sources_, [](const auto& other) { return other.expired(); });
    sources_.push_back(std::move(progress_source));
    any_.store(true, std::memory_order_release);
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Calls the sources without the mutex, since a source may take long. Holds one source at a time, since a
  // source may wait for the end of another one.
  void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) {
    std::vector<std::weak_ptr<ProgressSource>> all;
    {
      std::lock_guard guard(mutex_);
      all = sources_;
    }
    for (const std::weak_ptr<ProgressSource>& weak : all) {
      if (const std::shared_ptr<ProgressSource> progress_source = weak.lock())
        progress_source->progress_until(var, over);
    }
  }

 private:
  std::atomic<bool> any_{false};  // whether there are sources: most engines have none
  std::mutex mutex_;              // guards sources_; nothing is locked under it
  std::vector<std::weak_ptr<ProgressSource>> sources_;
};

}  // namespace heddle::detail
