#include "tcp/control_thread.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;

// Of what one peer says without reading. A frame a beat is no more than a few bytes: who has so much waiting does not read.
constexpr std::size_t kMostWaiting = 1 << 16;

// News may come between a look and the wait for them.
constexpr std::chrono::milliseconds kNap{5};

// How long a thread may wait for a core without that being a stop.
constexpr std::chrono::milliseconds kForSlices{40};

std::string name(int rank) { return "rank " + std::to_string(rank); }

std::chrono::milliseconds beat_of(std::chrono::milliseconds timeout) {
  return std::clamp<std::chrono::milliseconds>(timeout / 8, 1ms, 250ms);
}

}  // namespace

ControlThread::ControlThread(const Self& self, std::vector<std::unique_ptr<Connection>> connections,
                             FaultState& fault_state, Waits waits)
    : self_(self), fault_state_(fault_state), waits_(waits) {
  for (std::unique_ptr<Connection>& connection : connections) {
    Peer& peer = peers_.emplace_back();
    peer.connection = std::move(connection);
    peer.in.resize(peer.connection ? kMaxFrame : 0);
    peer.heard = Clock::now();
  }
  heard_.resize(peers_.size());
  thread_ = std::thread([this] { run(); });
}

ControlThread::~ControlThread() {
  leaving_.store(true, std::memory_order_release);
  fault_state_.control_thread_alarm().ring();
  thread_.join();
}

void ControlThread::run() {
  bool told = false;
  for (auto next_beat = Clock::now(); !leaving_.load(std::memory_order_acquire);) {
    if (fault_state_.failed() && !std::exchange(told, true)) tell_all(bad_news());
    tell_news();
    if (Clock::now() >= next_beat) {
      tell_all({});
      next_beat = Clock::now() + beat_of(self_.timeout);
    }
    await_events(next_beat);
    judge_silence();
  }
  if (fault_state_.failed() && !told) tell_all(bad_news());
  tell_news();
  say_goodbye();
}

void ControlThread::await_events(Clock::time_point until) {
  polled_.assign(1, {fault_state_.control_thread_alarm().fd(), POLLIN, 0});
  bool ready = false;
  for (const Peer& peer : peers_) {
    // A negative one is skipped by poll.
    const auto wanted =
        peer.connection ? peer.connection->before_sleep(!peer.out.empty(), true) : pollfd{-1, 0, 0};
    polled_.push_back(wanted.value_or(pollfd{-1, 0, 0}));
    ready |= !wanted;
  }
  auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  if (ready) ms = 0;
  const int events = poll(polled_.data(), polled_.size(), static_cast<int>(std::max<std::int64_t>(ms, 0)));
  if (events <= 0 && !ready) return;
  if (polled_[0].revents) fault_state_.control_thread_alarm().quiet();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].connection || (!ready && !polled_[i + 1].revents)) continue;
    flush(peers_[i]);
    listen(static_cast<int>(i), peers_[i]);
  }
}

// Once a round: who sends without end does not keep the others waiting.
void ControlThread::listen(int rank, Peer& peer) {
  const Step step = peer.connection->receive(std::span(peer.in).subspan(peer.filled), {});
  if (step.outcome == Step::Outcome::closed) return gone(rank, peer);
  if (step.outcome == Step::Outcome::would_block) return;
  peer.filled += step.bytes;
  peer.heard = Clock::now();
  read_frames(rank, peer);
}

void ControlThread::read_frames(int rank, Peer& peer) {
  std::size_t used = 0;
  while (peer.connection) {
    const Decoded decoded = decode(std::span(peer.in).subspan(used, peer.filled - used), self_.key);
    if (decoded.outcome == Decoded::Outcome::incomplete) break;
    const ControlFrame& frame = decoded.frame;
    if (decoded.outcome == Decoded::Outcome::nonsense || frame.rank != rank || frame.epoch != self_.epoch ||
        frame.number != ++peer.received) {
      return nonsense(rank, peer);
    }
    used += decoded.used;
    obey(rank, peer, frame);
  }
  // The longest frame fits, so that there is always room for more of an incomplete one.
  std::memmove(peer.in.data(), peer.in.data() + used, peer.filled - used);
  peer.filled -= used;
}

void ControlThread::obey(int rank, Peer& peer, const ControlFrame& frame) {
  switch (frame.kind) {
    case FrameKind::heartbeat:
      return;
    case FrameKind::abort:
      fault_state_.fail({frame.failure.type, frame.failure.rank, printable(frame.failure.text)});
      return;
    case FrameKind::leave:
      fault_state_.set_left(rank);
      return set_life(rank, false);
    case FrameKind::word: {
      const std::lock_guard lock(mutex_);
      heard_[static_cast<std::size_t>(rank)].word = frame.word;
      news_.notify_all();
      return;
    }
    case FrameKind::call:
      if (!frame.call.valid() || !is_of_all(frame.call)) return nonsense(rank, peer);
      if (auto mismatch = waits_.calls.told(rank, frame.call)) fault_state_.fail(*std::move(mismatch));
      return;
    case FrameKind::probe: {
      if (frame.probe.origin < 0 || frame.probe.origin >= size() || frame.probe.to_read > 1)
        return nonsense(rank, peer);
      DeadlockSearch::Finding finding = waits_.deadlocks.received(rank, frame.probe);
      if (finding.circle) fault_state_.fail(*std::move(finding.circle));
      return send_on(finding.on);
    }
    case FrameKind::hello:
      return nonsense(rank, peer);  // it was said already
  }
}

void ControlThread::gone(int rank, Peer& peer) {
  peer.connection.reset();
  set_life(rank, false);
  if (fault_state_.left(rank)) return;
  fault_state_.fail({Failure::Type::lost, rank,
                     name(rank) + " is lost: its process has ended, or its host cannot be reached"});
}

// It is still told why, for it may be the victim of an error and not its author.
void ControlThread::nonsense(int rank, Peer& peer) {
  fault_state_.fail(
      {Failure::Type::mismatch, rank, name(rank) + " sends " + name(self_.rank) + " what is no message"});
  tell(peer, bad_news());
  peer.connection.reset();
  set_life(rank, false);
}

// Who has been stopped itself, with the others or alone, cannot tell how long they have been silent.
void ControlThread::judge_silence() {
  const auto now = Clock::now();
  if (now - std::exchange(judged_, now) > self_.timeout / 4 + kForSlices) {
    for (Peer& peer : peers_) peer.heard = now;
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (!peers_[i].connection || fault_state_.left(rank)) continue;
    const bool silent = now - peers_[i].heard > self_.timeout;
    set_life(rank, !silent);
    if (!silent) continue;
    fault_state_.fail(
        {Failure::Type::silent, rank,
         name(rank) + " has shown no sign of life for " + std::to_string(self_.timeout.count()) + " ms"});
  }
}

void ControlThread::set_life(int rank, bool lives) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(heard_[static_cast<std::size_t>(rank)].lives, lives) != lives) news_.notify_all();
}

bool ControlThread::lives(int rank) {
  const std::lock_guard lock(mutex_);
  return heard_[static_cast<std::size_t>(rank)].lives;
}

std::string ControlThread::hear(int rank) {
  const std::lock_guard lock(mutex_);
  return heard_[static_cast<std::size_t>(rank)].word;
}

void ControlThread::say(const std::string& word) {
  {
    const std::lock_guard lock(mutex_);
    to_say_ = word;
  }
  fault_state_.control_thread_alarm().ring();
}

void ControlThread::wait() {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, kNap);
}

void ControlThread::tell_calls(std::span<const CallRecord> calls) {
  {
    const std::lock_guard lock(mutex_);
    waits_in_.insert(waits_in_.end(), calls.begin(), calls.end());
  }
  fault_state_.control_thread_alarm().ring();
}

void ControlThread::look_for_deadlock() {
  {
    const std::lock_guard lock(mutex_);
    looks_for_deadlock_ = true;
  }
  fault_state_.control_thread_alarm().ring();
}

void ControlThread::send_on(const DeadlockSearch::Probes& probes) {
  for (const auto& [rank, probe] : probes) {
    ControlFrame frame;
    frame.kind = FrameKind::probe;
    frame.probe = probe;
    frame.probe.path = printable(probe.path);
    tell(peers_[static_cast<std::size_t>(rank)], std::move(frame));
  }
}

// To all, also to those who are taken for dead: so one that is not learns of it.
void ControlThread::tell_news() {
  ControlFrame word, call;
  word.kind = FrameKind::word;
  call.kind = FrameKind::call;
  std::vector<CallRecord> waits_in;
  bool look = false;
  {
    const std::lock_guard lock(mutex_);
    word.word.swap(to_say_);
    waits_in.swap(waits_in_);
    look = std::exchange(looks_for_deadlock_, false);
  }
  if (look) send_on(waits_.deadlocks.begin());
  for (const CallRecord& one : waits_in) {
    call.call = one;
    tell_all(call);
  }
  if (!word.word.empty()) tell_all(word);
}

ControlFrame ControlThread::bad_news() const {
  ControlFrame frame;
  frame.kind = FrameKind::abort;
  frame.failure = fault_state_.failure();
  return frame;
}

void ControlThread::tell_all(const ControlFrame& what) {
  for (Peer& peer : peers_) tell(peer, what);
}

void ControlThread::tell(Peer& peer, ControlFrame frame) {
  if (!peer.connection || (frame.kind == FrameKind::heartbeat && peer.out.size() > kMostWaiting)) return;
  frame.epoch = self_.epoch;
  frame.rank = self_.rank;
  frame.number = ++peer.sent;
  peer.out += encode(frame, self_.key);
  flush(peer);
}

void ControlThread::flush(Peer& peer) {
  while (peer.connection && !peer.out.empty()) {
    const Step step = peer.connection->send(std::as_bytes(std::span(peer.out)), {});
    if (step.outcome == Step::Outcome::closed) peer.out.clear();  // listen() finds out what that means
    if (step.outcome != Step::Outcome::moved) return;
    peer.out.erase(0, step.bytes);
  }
}

// After a failure somebody may be gone for good, and nobody waits for data: then for a moment only.
void ControlThread::say_goodbye() {
  ControlFrame goodbye;
  goodbye.kind = FrameKind::leave;
  tell_all(goodbye);
  const auto moment = std::min(self_.timeout, 250ms);
  const auto begin = Clock::now();
  const auto deadline = fault_state_.failed()
                            ? begin + moment
                            : std::clamp(leaves_before_, begin + moment, begin + self_.timeout);
  const auto settled = [](Peer& peer) {
    if (peer.connection && !peer.out.empty()) return false;
    if (peer.connection) peer.connection->finish_sending();
    return !peer.connection || peer.connection->all_delivered();
  };
  for (auto pause = 1ms; Clock::now() < deadline; pause = std::min(2 * pause, 20ms)) {
    for (Peer& peer : peers_) flush(peer);
    if (std::count_if(peers_.begin(), peers_.end(), settled) == static_cast<std::ptrdiff_t>(peers_.size()))
      return;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace heddle::comm_detail
