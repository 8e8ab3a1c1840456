#include "stream/poller.h"

#include <algorithm>
#include <system_error>

namespace heddle::detail {
namespace {

// Work that has run for long may be asked about seldom: an eighth of its time, so that what is lost is an eighth too.
// Below the shortest pause a sleep costs more than it saves.
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{200};

void add(auto& lines, auto watched) {
  for (auto& line : lines) {
    if (line.front().stream == watched.stream) return line.push_back(std::move(watched));
  }
  lines.emplace_back().push_back(std::move(watched));
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

// False if there is no thread to be had: better late than never, the caller then polls itself.
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

// Adds what is new to `lines`, after a pause if nothing is; false if there is nothing more to come.
bool Poller::take_new(std::vector<Line>& lines, Clock::time_point& last_news) {
  std::unique_lock lock(mutex_);
  if (lines.empty()) {
    news_.wait(lock, [this] { return !new_.empty() || stopping_; });
  } else if (const auto pause = (Clock::now() - last_news) / 8; pause > kShortestPause) {
    news_.wait_for(lock, std::min<Clock::duration>(pause, kLongestPause), [this] { return !new_.empty(); });
  }
  if (!new_.empty()) last_news = Clock::now();
  for (Watched& watched : new_) add(lines, std::move(watched));
  new_.clear();
  return !lines.empty();
}

// Calls back for all that has completed; true if something has.
bool Poller::sweep(std::vector<Line>& lines) {
  bool any = false;
  for (Line& line : lines) {
    std::exception_ptr error;
    while (!line.empty() && line.front().stream->poll(*line.front().event, line.front().generation, error)) {
      const Watched done = std::move(line.front());
      line.pop_front();
      done.call(std::exchange(error, nullptr));
      any = true;
    }
  }
  std::erase_if(lines, [](const Line& line) { return line.empty(); });
  return any;
}

void Poller::work() {
  std::vector<Line> lines;
  Clock::time_point last_news = Clock::now();
  while (take_new(lines, last_news)) {
    if (sweep(lines)) {
      last_news = Clock::now();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace heddle::detail
