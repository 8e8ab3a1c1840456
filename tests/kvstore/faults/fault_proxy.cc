#include "faults/fault_proxy.h"

#include <algorithm>
#include <array>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "transport/address.h"

namespace heddle::test {
namespace {

using net_detail::Socket;

constexpr std::size_t kChunk = 16 << 10, kMostHeld = 256 << 10;
constexpr int kLongestDelay = 30;  // ms
constexpr std::chrono::milliseconds kLongestHold{300};
constexpr std::uint64_t kMostOvertake = 200, kNever = ~std::uint64_t{0};
constexpr std::size_t kReplayed = 4 << 10;
constexpr const char* kHost = "127.0.0.1";
constexpr std::uint64_t kMutesAreRare = 40;

}  // namespace

FaultProxy::FaultProxy(std::uint64_t seed, int rare)
    : random_(seed), rare_(rare), listener_(net_detail::listen_on(kHost, {0, 0}, SOMAXCONN)) {
  address_ = std::string(kHost) + ":" + std::to_string(net_detail::port_of(listener_));
  thread_ = std::thread([this] { run(); });
}

FaultProxy::FaultProxy(const std::string& target, std::uint64_t seed, int rare) : FaultProxy(seed, rare) {
  set_target(target);
}

void FaultProxy::set_target(const std::string& target) {
  port_.store(net_detail::parse_address(target).port);
}

FaultProxy::~FaultProxy() {
  stopping_.store(true);
  wake_.signal();
  thread_.join();
}

void FaultProxy::refuse() {
  refusing_.store(true);
  wake_.signal();
}

FaultCounts FaultProxy::counts() const {
  return {accepted_.load(),         chunks_.load(),          faults_[kDelay].load(),
          faults_[kLoss].load(),    faults_[kMute].load(),   faults_[kCorruption].load(),
          faults_[kCut].load(),     faults_[kDouble].load(), faults_[kReplay].load(),
          faults_[kOvertake].load()};
}

void FaultProxy::run() {
  std::vector<pollfd> polled;
  while (!stopping_.load()) {
    if (refusing_.load()) {
      connections_.clear();
      listener_.close();
    }
    connections_.remove_if([](const Connection& one) { return one.over; });
    polled = {{wake_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    const auto now = Clock::now();
    for (const Connection& one : connections_) {
      for (const int side : {0, 1}) {
        short events = POLLRDHUP;
        if (!one.mute && one.ways[side].held.size() < kMostHeld) events |= POLLIN;
        const Way& in = one.ways[1 - side];
        if (!one.mute && !in.held.empty() && !is_held(in, now)) events |= POLLOUT;
        polled.push_back({one.sides[side].fd(), events, 0});
      }
    }
    ::poll(polled.data(), polled.size(), wait_time());
    if ((polled[0].revents & POLLIN) != 0) wake_.clear();
    std::size_t at = 2;
    for (Connection& one : connections_) {
      for (const int side : {0, 1}) {
        const short events = polled[at++].revents;
        if (one.over || events == 0) continue;
        if (one.mute) {
          end(one, false);
          continue;
        }
        if ((events & POLLOUT) != 0) write_to(one, side);
        if (!one.over && (events & (POLLIN | POLLHUP | POLLERR | POLLRDHUP)) != 0) read_from(one, side);
      }
    }
    if ((polled[1].revents & POLLIN) != 0) accept_all();
    replay_all();
  }
}

// The number of milliseconds until the next held bytes may be sent.
int FaultProxy::wait_time() const {
  const auto now = Clock::now();
  std::int64_t wait = 1000;
  for (const Connection& one : connections_) {
    for (const Way& way : one.ways) {
      if (one.mute || way.held.empty() || !is_held(way, now)) continue;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(way.until - now).count();
      wait = std::min(wait, left + 1);
    }
  }
  return static_cast<int>(wait);
}

void FaultProxy::accept_all() {
  while (Socket client = net_detail::accept_from(listener_)) {
    Connection& one = connections_.emplace_back();
    one.sides[0] = std::move(client);
    one.sides[1] = net_detail::connect_to(kHost, port_.load());
    for (const Socket& side : one.sides) net_detail::tune_for_data(side);
    ++accepted_;
  }
}

void FaultProxy::read_from(Connection& connection, int side) {
  std::vector<char> chunk(kChunk);
  const ssize_t got = ::recv(connection.sides[side].fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end(connection, false);
  chunk.resize(static_cast<std::size_t>(got));
  forward(connection, side, std::move(chunk));
}

FaultProxy::Fault FaultProxy::any_fault() {
  const int rare = rare_.load();
  if (rare <= 0 || random(static_cast<std::uint64_t>(rare)) != 0) return kFaults;
  // Faults that are chosen often. kMute is not: the other side notices a half-open connection only after
  // seconds.
  constexpr std::array<Fault, 8> kOften = {kDelay, kLoss,   kCorruption, kCut,
                                           kCut,   kDouble, kReplay,     kOvertake};
  const Fault fault = random(kMutesAreRare) == 0 ? kMute : kOften[random(kOften.size())];
  ++faults_[fault];
  return fault;
}

void FaultProxy::forward(Connection& connection, int side, std::vector<char> chunk) {
  // A connection that replays the beginning of another has no client, so the server's answers are discarded.
  if (!connection.sides[1 - side]) return;
  if (side == 0 && connection.begun.size() < kReplayed)
    connection.begun.insert(connection.begun.end(), chunk.begin(), chunk.end());
  Way& way = connection.ways[side];
  ++chunks_;
  const auto now = Clock::now();
  const Fault fault = any_fault();
  if (fault == kLoss) return end(connection, true);
  if (fault == kMute) {
    connection.mute = true;
    return;
  }
  if (fault == kDelay) {
    way.until = now + std::chrono::milliseconds(random(kLongestDelay));
    way.until_chunk = kNever;
  }
  if (fault == kOvertake) {
    way.until = now + kLongestHold;
    way.until_chunk = chunks_.load() + 1 + random(kMostOvertake);
  }
  if (fault == kCorruption) {
    char& one = chunk[random(chunk.size())];
    one = static_cast<char>(one ^ (1 << random(8)));
  }
  if (fault == kCut) chunk.resize(random(chunk.size()) + 1);
  way.held.insert(way.held.end(), chunk.begin(), chunk.end());
  if (fault == kDouble) way.held.insert(way.held.end(), chunk.begin(), chunk.end());
  if (fault == kReplay) replays_.push_back(connection.begun);
  if (fault == kCut) way.until = {};
  if (!is_held(way, now)) write_to(connection, 1 - side);
  if (fault == kCut && !connection.over) end(connection, false);
}

// Opens connections that repeat recorded beginnings of others, as an attacker does.
void FaultProxy::replay_all() {
  for (std::vector<char>& begun : std::exchange(replays_, {})) {
    Connection& one = connections_.emplace_back();
    one.sides[1] = net_detail::connect_to(kHost, port_.load());
    one.ways[0].held = std::move(begun);
  }
}

void FaultProxy::write_to(Connection& connection, int side) {
  std::vector<char>& held = connection.ways[1 - side].held;
  const ssize_t sent =
      ::send(connection.sides[side].fd(), held.data(), held.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return;
  if (sent < 0) return end(connection, false);
  held.erase(held.begin(), held.begin() + sent);
}

// With `reset` the connection ends at once, and bytes in flight are lost.
void FaultProxy::end(Connection& connection, bool reset) {
  if (reset) {
    const linger now{1, 0};
    for (const Socket& side : connection.sides)
      setsockopt(side.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  for (Socket& side : connection.sides) side.close();
  connection.over = true;
}

}  // namespace heddle::test
