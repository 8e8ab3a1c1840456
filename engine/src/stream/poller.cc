#include "stream/poller.h"

#include <algorithm>
#include <system_error>

namespace heddle::detail {
namespace {

// Between two polls the thread pauses for an eighth of the time since an event was added or completed, but at
// most kLongestPause. So a completion is seen late by at most an eighth of that time. A pause shorter than
// kShortestPause costs more than it saves.
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{200};

void add(auto& queues, auto watched) {
  for (auto& queue : queues) {
    if (queue.front().stream == watched.stream) return queue.push_back(std::move(watched));
  }
  queues.emplace_back().push_back(std::move(watched));
}

}  // namespace

void Poller::watch(Stream& stream, Event& event, std::uint64_t generation, Stream::Callback call) {
  if (stream.notify(event, generation, call)) return;
  if (start()) {
    {
      std::lock_guard guard(mutex_);
      new_.push_back({&stream, &event, generation, std::move(call)});
    }
    news_.notify_one();
    return;
  }
  std::exception_ptr error;
  while (!stream.poll(event, generation, error)) std::this_thread::yield();
  call(error);
}

// Starts the thread, if it does not run yet. False if the system refuses: the caller then polls itself.
bool Poller::start() {
  std::lock_guard guard(mutex_);
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void Poller::stop() noexcept {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Poller::has_thread() const {
  std::lock_guard guard(mutex_);
  return thread_.joinable();
}

// Adds newly watched events to `queues`, after a pause if there are none. False if there is nothing to poll, and
// nothing will be added.
bool Poller::take_new(std::vector<StreamQueue>& queues, Clock::time_point& last_news) {
  std::unique_lock lock(mutex_);
  if (queues.empty()) {
    news_.wait(lock, [this] { return !new_.empty() || stopping_; });
  } else if (const auto pause = (Clock::now() - last_news) / 8; pause > kShortestPause) {
    news_.wait_for(lock, std::min<Clock::duration>(pause, kLongestPause), [this] { return !new_.empty(); });
  }
  if (!new_.empty()) last_news = Clock::now();
  for (Watched& watched : new_) add(queues, std::move(watched));
  new_.clear();
  return !queues.empty();
}

// Calls back for all events that have completed. True if there was one.
bool Poller::poll_all(std::vector<StreamQueue>& queues) {
  bool any = false;
  for (StreamQueue& queue : queues) {
    std::exception_ptr error;
    while (!queue.empty() &&
           queue.front().stream->poll(*queue.front().event, queue.front().generation, error)) {
      const Watched done = std::move(queue.front());
      queue.pop_front();
      done.call(std::exchange(error, nullptr));
      any = true;
    }
  }
  std::erase_if(queues, [](const StreamQueue& queue) { return queue.empty(); });
  return any;
}

void Poller::work() {
  std::vector<StreamQueue> queues;
  Clock::time_point last_news = Clock::now();
  while (take_new(queues, last_news)) {
    if (poll_all(queues)) {
      last_news = Clock::now();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace heddle::detail
