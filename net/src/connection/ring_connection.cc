#include "connection/ring_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace heddle::net_detail {
namespace {

// Checks the counters, because the other process can write anything into the shared memory.
std::size_t filled(std::uint64_t written, std::uint64_t taken, bool& valid) {
  valid = written - taken <= Ring::kBytes;
  return valid ? written - taken : 0;
}

// Copies into or out of a ring, from position `at` on.
class Cursor {
 public:
  Cursor(Ring& ring, std::uint64_t at, std::size_t most) : ring_(ring), at_(at), left_(most) {}
  std::size_t moved() const { return moved_; }

  void put(std::span<const std::byte> from) {
    each(from.size(), [&](std::size_t place, std::size_t done, std::size_t bytes) {
      std::memcpy(ring_.data + place, from.data() + done, bytes);
    });
  }
  void get(std::span<std::byte> to) {
    each(to.size(), [&](std::size_t place, std::size_t done, std::size_t bytes) {
      std::memcpy(to.data() + done, ring_.data + place, bytes);
    });
  }

 private:
  template <class Move> void each(std::size_t size, Move&& move) {
    for (std::size_t done = 0; done < size && left_ > 0;) {
      const std::size_t place = at_ % Ring::kBytes;
      const std::size_t bytes = std::min({size - done, left_, Ring::kBytes - place});
      move(place, done, bytes);
      done += bytes;
      at_ += bytes;
      left_ -= bytes;
      moved_ += bytes;
    }
  }

  Ring& ring_;
  std::uint64_t at_;
  std::size_t left_, moved_ = 0;
};

class RingConnection final : public Connection {
 public:
  RingConnection(std::unique_ptr<Connection> bell, Ring& out, Ring& in, std::shared_ptr<void> memory)
      : bell_(std::move(bell)), memory_(std::move(memory)), out_(out), in_(in) {}

  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    drain_bell();
    bool valid = true;
    const std::size_t room = Ring::kBytes - filled(written_, out_.taken.load(), valid);
    if (closed_ || !valid) return {Step::Outcome::closed};
    if (room == 0) return {};
    Cursor cursor(out_, written_, std::min(room, kMaxStep));
    cursor.put(head);
    cursor.put(body);
    written_ += cursor.moved();
    out_.written.store(written_);
    wake(out_.reader_sleeps);
    return {Step::Outcome::moved, cursor.moved()};
  }

  Step receive(std::span<std::byte> head, std::span<std::byte> body) override {
    drain_bell();
    // `finished` is loaded before `written`, because the writer stores `written` before `finished`.
    const bool over = closed_ || in_.finished.load();
    bool valid = true;
    const std::size_t there = filled(in_.written.load(), taken_, valid);
    if (!valid || (there == 0 && over)) return {Step::Outcome::closed};
    if (there == 0) return {};
    Cursor cursor(in_, taken_, std::min(there, kMaxStep));
    cursor.get(head);
    cursor.get(body);
    taken_ += cursor.moved();
    in_.taken.store(taken_);
    wake(in_.writer_sleeps);
    return {Step::Outcome::moved, cursor.moved()};
  }

  // A side that sleeps stores its flag and then loads the counters; a side that transfers stores a counter and then
  // loads the flag. All are sequentially consistent, so at least one of the two sees the other.
  std::optional<pollfd> before_sleep(bool to_send, bool to_receive) override {
    if (to_send) out_.writer_sleeps.store(1);
    if (to_receive) in_.reader_sleeps.store(1);
    const bool room = to_send && out_.taken.load() + Ring::kBytes != written_;
    const bool data = to_receive && (in_.written.load() != taken_ || in_.finished.load());
    if (room || data) return std::nullopt;
    slept_ = true;
    return pollfd{socket().fd(), POLLIN, 0};
  }

  const Socket& socket() const override { return bell_->socket(); }

  void finish_sending() override {
    if (out_.finished.exchange(1) == 0) wake(out_.reader_sleeps);
  }

  bool all_delivered() override {
    slept_ = true;
    drain_bell();
    return closed_ || out_.taken.load() == written_;
  }

 private:
  // The most bytes of a step: the other side reads a part while the next one is copied.
  static constexpr std::size_t kMaxStep = Ring::kBytes / 4;

  void wake(std::atomic<std::uint32_t>& sleeps) {
    if (!sleeps.load() || !sleeps.exchange(0)) return;
    const char one = 1;
    [[maybe_unused]] const auto sent = ::send(socket().fd(), &one, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // Reads the bytes that have woken this side. At the end of the socket the other side no longer uses the rings.
  void drain_bell() {
    if (!std::exchange(slept_, false)) return;
    std::array<char, 64> rings;
    ssize_t got = 0;
    do got = recv(socket().fd(), rings.data(), rings.size(), MSG_DONTWAIT);
    while (got > 0);
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) closed_ = true;
  }

  const std::unique_ptr<Connection> bell_;
  const std::shared_ptr<void> memory_;
  Ring &out_, &in_;
  std::uint64_t written_ = 0, taken_ = 0;  // private copies of this side's counters
  bool slept_ = false, closed_ = false;
};

}  // namespace

std::unique_ptr<Connection> ring_connection(std::unique_ptr<Connection> bell, Ring& out, Ring& in,
                                            std::shared_ptr<void> memory) {
  return std::make_unique<RingConnection>(std::move(bell), out, in, std::move(memory));
}

}  // namespace heddle::net_detail
