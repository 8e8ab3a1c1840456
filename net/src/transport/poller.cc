#include "transport/poller.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <sys/epoll.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {

FdPoller::FdPoller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw CommError("there is no epoll to be had: " + net_detail::last_error());
}

// The events of epoll have the values of those of poll(2).
void FdPoller::control(int operation, int fd, short events, std::uint64_t number) {
  epoll_event event{};
  event.events = static_cast<std::uint16_t>(events);
  event.data.u64 = number;
  if (epoll_ctl(epoll_.fd(), operation, fd, &event) != 0)
    throw CommError("a connection cannot be waited for: " + net_detail::last_error());
}

void FdPoller::add(int fd, short events, std::uint64_t number) { control(EPOLL_CTL_ADD, fd, events, number); }
void FdPoller::remove(int fd) { control(EPOLL_CTL_DEL, fd, 0, 0); }
void FdPoller::change(int fd, short events, std::uint64_t number) {
  control(EPOLL_CTL_MOD, fd, events, number);
}

const std::vector<std::uint64_t>& FdPoller::wait(std::chrono::nanoseconds timeout, int most) {
  std::array<epoll_event, kMost> events;
  most = std::min(most, kMost);
  const auto left = std::max<std::int64_t>(timeout.count(), 0);
  const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
  int count = epoll_pwait2(epoll_.fd(), events.data(), most, &wait, nullptr);
  if (count < 0 && errno == ENOSYS) {  // Linux before 5.11 lacks epoll_pwait2
    const auto milliseconds = std::min<std::int64_t>((left + 999'999) / 1'000'000, 1'000'000);
    count = epoll_wait(epoll_.fd(), events.data(), most, static_cast<int>(milliseconds));
  }
  ready_.clear();
  for (int i = 0; i < count; ++i) {
    // A copy, since a reference to a member of the packed epoll_event would not be aligned.
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
    ready_.push_back(number);
  }
  return ready_;
}

}  // namespace heddle::net_detail
