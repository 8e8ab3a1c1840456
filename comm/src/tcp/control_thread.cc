#include "tcp/control_thread.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/failure.h"

namespace heddle::comm_detail {
namespace {

using namespace std::chrono_literals;

// While more than this many bytes wait for a peer, no heartbeats are queued for it, since it does not read
// what was sent before.
constexpr std::size_t kMaxQueued = 1 << 16;

// wait() returns after this time at the latest, because it cannot know what its caller has seen already.
constexpr std::chrono::milliseconds kMaxWait{5};

// How long a thread may wait for a core. A longer pause counts as a stop of this process.
constexpr std::chrono::milliseconds kSchedulingDelay{40};

// Each rank sends heartbeats to each other rank: with many ranks on few cores, four a second would take all
// of the time.
std::chrono::milliseconds heartbeat_interval(std::chrono::milliseconds timeout, std::size_t ranks) {
  const std::chrono::milliseconds longest = std::max<std::chrono::milliseconds>(250ms, 8ms * ranks);
  return std::clamp<std::chrono::milliseconds>(timeout / 8, 1ms, longest);
}

}  // namespace

ControlThread::ControlThread(const Self& self, std::vector<std::unique_ptr<Connection>> connections,
                             FaultState& fault_state, Detectors detectors)
    : self_(self), fault_state_(fault_state), detectors_(detectors) {
  for (std::unique_ptr<Connection>& connection : connections) {
    Peer& peer = peers_.emplace_back();
    peer.connection = std::move(connection);
    peer.in.resize(peer.connection ? kMaxFrame : 0);
    peer.last_received = Clock::now();
  }
  states_.resize(peers_.size());
  thread_ = std::thread([this] { run(); });
}

ControlThread::~ControlThread() {
  leaving_.store(true, std::memory_order_release);
  fault_state_.control_thread_event().signal();
  thread_.join();
}

void ControlThread::run() {
  bool failure_sent = false;
  for (auto next_heartbeat = Clock::now(); !leaving_.load(std::memory_order_acquire);) {
    if (fault_state_.failed() && !std::exchange(failure_sent, true)) send_to_all(abort_frame());
    send_pending();
    if (Clock::now() >= next_heartbeat) {
      send_to_all({});
      next_heartbeat = Clock::now() + heartbeat_interval(self_.timeout, peers_.size());
    }
    await_events(next_heartbeat);
    check_heartbeats();
  }
  if (fault_state_.failed() && !failure_sent) send_to_all(abort_frame());
  send_pending();
  leave();
}

void ControlThread::await_events(Clock::time_point until) {
  polled_.assign(1, {fault_state_.control_thread_event().fd(), POLLIN, 0});
  bool ready = false;
  for (const Peer& peer : peers_) {
    // A peer without a connection has the descriptor -1, which poll() skips.
    const auto wanted =
        peer.connection ? peer.connection->before_sleep(!peer.out.empty(), true) : pollfd{-1, 0, 0};
    polled_.push_back(wanted.value_or(pollfd{-1, 0, 0}));
    ready |= !wanted;
  }
  auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  if (ready) ms = 0;
  const int events = poll(polled_.data(), polled_.size(), static_cast<int>(std::max<std::int64_t>(ms, 0)));
  if (events <= 0 && !ready) return;
  if (polled_[0].revents) fault_state_.control_thread_event().clear();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].connection || (!ready && !polled_[i + 1].revents)) continue;
    flush(peers_[i]);
    receive(static_cast<int>(i), peers_[i]);
  }
}

// Called once for each peer in a round, so that a peer that sends without pause does not delay the others.
void ControlThread::receive(int rank, Peer& peer) {
  const Step step = peer.connection->receive(std::span(peer.in).subspan(peer.filled), {});
  if (step.outcome == Step::Outcome::closed) return connection_closed(rank, peer);
  if (step.outcome == Step::Outcome::would_block) return;
  peer.filled += step.bytes;
  peer.last_received = Clock::now();
  read_frames(rank, peer);
}

void ControlThread::read_frames(int rank, Peer& peer) {
  std::size_t used = 0;
  while (peer.connection) {
    const Decoded decoded = decode(std::span(peer.in).subspan(used, peer.filled - used), self_.key);
    if (decoded.outcome == Decoded::Outcome::incomplete) break;
    const ControlFrame& frame = decoded.frame;
    if (decoded.outcome == Decoded::Outcome::invalid || frame.rank != rank || frame.epoch != self_.epoch ||
        frame.number != ++peer.received) {
      return reject(rank, peer);
    }
    used += decoded.used;
    apply(rank, peer, frame);
  }
  // The buffer can hold the longest frame, so there is always room for the rest of an incomplete frame.
  std::memmove(peer.in.data(), peer.in.data() + used, peer.filled - used);
  peer.filled -= used;
}

void ControlThread::apply(int rank, Peer& peer, const ControlFrame& frame) {
  switch (frame.kind) {
    case FrameKind::heartbeat:
      return;
    case FrameKind::abort:
      fault_state_.fail({frame.failure.type, frame.failure.rank, printable(frame.failure.text)});
      return;
    case FrameKind::leave:
      fault_state_.set_left(rank);
      return set_alive(rank, false);
    case FrameKind::survivor: {
      const std::lock_guard lock(mutex_);
      states_[static_cast<std::size_t>(rank)].message = frame.survivor_message;
      changed_.notify_all();
      return;
    }
    case FrameKind::call:
      if (!frame.call.valid() || !is_collective_call(frame.call)) return reject(rank, peer);
      if (auto mismatch = detectors_.calls.announced(rank, frame.call))
        fault_state_.fail(*std::move(mismatch));
      return;
    case FrameKind::probe: {
      if (frame.probe.origin < 0 || frame.probe.origin >= size() || frame.probe.to_read > 1)
        return reject(rank, peer);
      DeadlockSearch::Result result = detectors_.deadlocks.received(rank, frame.probe);
      if (result.cycle) fault_state_.fail(*std::move(result.cycle));
      return send_probes(result.forward);
    }
    case FrameKind::hello:
      return reject(rank, peer);  // only the first frame of a connection is a hello
  }
}

void ControlThread::connection_closed(int rank, Peer& peer) {
  peer.connection.reset();
  set_alive(rank, false);
  if (fault_state_.left(rank)) return;
  fault_state_.fail({Failure::Type::lost, rank,
                     rank_name(rank) + " is lost: its process has ended, or its host cannot be reached"});
}

// The peer is sent the failure before the connection is closed, so that the peer's user sees the cause.
void ControlThread::reject(int rank, Peer& peer) {
  fault_state_.fail({Failure::Type::mismatch, rank,
                     rank_name(rank) + " sends " + rank_name(self_.rank) + " an invalid message"});
  send(peer, abort_frame());
  peer.connection.reset();
  set_alive(rank, false);
}

// After a pause of its own, such as a stop by a signal, this rank cannot tell how long the others have been silent.
void ControlThread::check_heartbeats() {
  const auto now = Clock::now();
  if (now - std::exchange(last_check_, now) > self_.timeout / 4 + kSchedulingDelay) {
    for (Peer& peer : peers_) peer.last_received = now;
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (!peers_[i].connection || fault_state_.left(rank)) continue;
    const bool silent = now - peers_[i].last_received > self_.timeout;
    set_alive(rank, !silent);
    if (!silent) continue;
    fault_state_.fail({Failure::Type::silent, rank,
                       rank_name(rank) + " has shown no sign of life for " +
                           std::to_string(self_.timeout.count()) + " ms"});
  }
}

void ControlThread::set_alive(int rank, bool alive) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(states_[static_cast<std::size_t>(rank)].alive, alive) != alive) changed_.notify_all();
}

bool ControlThread::is_alive(int rank) {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<std::size_t>(rank)].alive;
}

std::string ControlThread::latest_message(int rank) {
  const std::lock_guard lock(mutex_);
  return states_[static_cast<std::size_t>(rank)].message;
}

void ControlThread::broadcast(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    pending_message_ = message;
  }
  fault_state_.control_thread_event().signal();
}

void ControlThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kMaxWait);
}

void ControlThread::announce_calls(std::span<const CallRecord> calls, int to) {
  {
    const std::lock_guard lock(mutex_);
    for (const CallRecord& call : calls) pending_calls_.emplace_back(call, to);
  }
  fault_state_.control_thread_event().signal();
}

void ControlThread::start_deadlock_search() {
  {
    const std::lock_guard lock(mutex_);
    pending_search_ = true;
  }
  fault_state_.control_thread_event().signal();
}

void ControlThread::send_probes(const DeadlockSearch::Probes& probes) {
  for (const auto& [rank, probe] : probes) {
    ControlFrame frame;
    frame.kind = FrameKind::probe;
    frame.probe = probe;
    frame.probe.path = printable(probe.path);
    send(peers_[static_cast<std::size_t>(rank)], std::move(frame));
  }
}

// Ranks that seem dead are included. One that is alive learns from these messages that it was excluded.
void ControlThread::send_pending() {
  ControlFrame survivor, call;
  survivor.kind = FrameKind::survivor;
  call.kind = FrameKind::call;
  std::vector<std::pair<CallRecord, int>> calls;
  bool search = false;
  {
    const std::lock_guard lock(mutex_);
    survivor.survivor_message.swap(pending_message_);
    calls.swap(pending_calls_);
    search = std::exchange(pending_search_, false);
  }
  if (search) send_probes(detectors_.deadlocks.start());
  for (const auto& [one, to] : calls) {
    call.call = one;
    to == kAllRanks ? send_to_all(call) : send(peers_[static_cast<std::size_t>(to)], call);
  }
  if (!survivor.survivor_message.empty()) send_to_all(survivor);
}

ControlFrame ControlThread::abort_frame() const {
  ControlFrame frame;
  frame.kind = FrameKind::abort;
  frame.failure = fault_state_.failure();
  return frame;
}

void ControlThread::send_to_all(const ControlFrame& frame) {
  for (Peer& peer : peers_) send(peer, frame);
}

void ControlThread::send(Peer& peer, ControlFrame frame) {
  if (!peer.connection || (frame.kind == FrameKind::heartbeat && peer.out.size() > kMaxQueued)) return;
  frame.epoch = self_.epoch;
  frame.rank = self_.rank;
  frame.number = ++peer.sent;
  peer.out += encode(frame, self_.key);
  flush(peer);
}

void ControlThread::flush(Peer& peer) {
  while (peer.connection && !peer.out.empty()) {
    const Step step = peer.connection->send(std::as_bytes(std::span(peer.out)), {});
    if (step.outcome == Step::Outcome::closed)
      peer.out.clear();  // receive() will see the closed connection and handle it
    if (step.outcome != Step::Outcome::moved) return;
    peer.out.erase(0, step.bytes);
  }
}

// Sends the leave frame and waits until all ranks have received it. After a failure the wait is short, since
// some ranks may never receive it, and no rank waits for data.
void ControlThread::leave() {
  ControlFrame frame;
  frame.kind = FrameKind::leave;
  send_to_all(frame);
  const auto shortest = std::min(self_.timeout, 250ms);
  const auto begin = Clock::now();
  const auto deadline = fault_state_.failed()
                            ? begin + shortest
                            : std::clamp(leaves_before_, begin + shortest, begin + self_.timeout);
  const auto delivered = [](Peer& peer) {
    if (peer.connection && !peer.out.empty()) return false;
    if (peer.connection) peer.connection->finish_sending();
    return !peer.connection || peer.connection->all_delivered();
  };
  for (auto pause = 1ms; Clock::now() < deadline; pause = std::min(2 * pause, 20ms)) {
    for (Peer& peer : peers_) flush(peer);
    if (std::count_if(peers_.begin(), peers_.end(), delivered) == static_cast<std::ptrdiff_t>(peers_.size()))
      return;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace heddle::comm_detail
