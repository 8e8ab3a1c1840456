#include "transport/net_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include <heddle/comm_error.h>

#include "transport/address.h"
#include "transport/net_handshake.h"
#include "transport/net_listeners.h"
#include "transport/net_messages.h"
#include "transport/net_peer.h"
#include "transport/poller.h"
#include "transport/time_budget.h"
#include "transport/yielding.h"

namespace heddle::net_detail {
namespace {

using net_detail::Socket;
using Clock = std::chrono::steady_clock;
using Way = NewConnection::Way;

constexpr std::uint64_t kWakeNumber = ~0ull, kStrangersNumber = ~1ull;
constexpr std::uint64_t kFirstListener = 1ull << 63;  // numbers of listeners; those of peers are smaller
constexpr std::size_t kMostBusy = 8;                  // most connections that spin() polls
constexpr int kRoundsBetweenClocks = 16;              // rounds of spin() between two looks at the clock
constexpr int kRoundsBetweenLooks = 256;              // rounds of spin() between two polls of all connections
constexpr int kBusyPolls = 16;                     // calls of poll() after which all connections are polled
constexpr std::chrono::milliseconds kBusyTime{5};  // time after which all connections are polled
// Most connections that are not authenticated. Beyond it the oldest is closed, to leave descriptors free.
constexpr std::size_t kMostUnauthenticated = 512;
// While there are authenticated connections, accepting and handshakes take one part in kPartsOfTime of the
// time, and kHandshakesAtOnce at once after a rest, so that a flood of connections does not hold up the
// others.
constexpr int kPartsOfTime = 5;
constexpr std::chrono::milliseconds kHandshakesAtOnce{5};
const std::atomic<std::uint32_t> kNever{0};

class NetTransport final : public Transport {
 public:
  NetTransport(const TransportOptions& options, Receiver& receiver);
  ~NetTransport() override;

  std::string listen(const std::string& address) override;
  Peer connect(const std::string& address) override;
  void send(Peer peer, Message message) override;
  std::size_t queued(Peer peer) const override;
  void close(Peer peer) override;
  void poll(std::chrono::microseconds timeout) override;
  void wake() noexcept override;
  KeyRoles roles_of(const std::string& key) const override { return factory_.roles_of(key); }
  const RefusedConnections& refused_connections() const override { return refused_connections_; }
  bool can_spin() const override { return spin_.count() > 0; }
  void flush() override;
  bool spin(const std::atomic<std::uint32_t>& over) override;

 private:
  NetPeer* find(Peer peer) const;
  static bool is_let_in(const NetPeer& peer) { return !peer.client && peer.stage == NetPeer::Stage::open; }
  FdPoller& poller_of(const NetPeer& peer);
  NetPeer& add(bool client);
  void enter(NetPeer& peer, NewConnection fresh);
  void progress_unidentified();
  void watch_unidentified(bool watch);
  void accept_from(const Listener& listener);
  void accept_one(NewConnection fresh);
  void make_room_for_a_descriptor(const Listener& listener);
  void drop_oldest_unauthenticated();

  bool work();
  bool progress(NetPeer& peer);
  bool step(NetPeer& peer);
  bool shake_hands(NetPeer& peer);
  bool move(NetPeer& peer);
  bool linger(NetPeer& peer);
  void check_connected(NetPeer& peer);
  void lose(NetPeer& peer, const std::string& why);
  void forget(NetPeer& peer);
  void refuse(const NetPeer& stranger, const std::string& why);
  void check_deadlines();
  void check_keys();
  void report_failures();

  void make_ready(NetPeer& peer);
  void mark_busy(Peer peer);
  bool spin(Clock::time_point end, const std::atomic<std::uint32_t>& over);
  bool register_events(NetPeer& peer);
  void register_all_events();
  void sleep(Clock::time_point end);
  void look_now_and_then();
  void look(std::chrono::nanoseconds timeout);
  std::chrono::nanoseconds time_to_sleep(Clock::time_point end) const;

  const TransportOptions options_;
  const std::chrono::microseconds spin_;
  Receiver& receiver_;
  ConnectionFactory factory_;
  // unidentified_poller_ has the listeners and the accepted connections that are not authenticated. It is nested
  // in poller_, so that one call includes or excludes them all.
  FdPoller poller_, unidentified_poller_;
  bool watches_unidentified_ = true;
  TimeBudget unidentified_share_{kPartsOfTime, kHandshakesAtOnce};
  net_detail::EventFd wake_;
  std::atomic<bool> woken_{false}, sleeps_{false};  // sleeps_: wake() has to signal wake_
  Socket spare_;  // is closed to get a descriptor for a connection, which is then refused
  std::vector<Listener> listeners_;

  std::unordered_map<Peer, std::unique_ptr<NetPeer>> peers_;
  std::vector<std::unique_ptr<NetPeer>> closed_;  // destroyed when no call uses the peers
  Peer last_peer_ = 0;
  std::size_t accepted_ = 0, let_in_ = 0;  // accepted peers; those of them that are authenticated
  RefusedConnections refused_connections_;
  // Handshake deadlines of peers that are not authenticated. Older peers have earlier ones.
  std::map<Peer, Clock::time_point> deadlines_;
  std::vector<std::pair<Peer, std::string>> failures_;  // errors that the next work() reports
  std::vector<Peer> ready_, unregistered_;
  std::array<Peer, kMostBusy> busy_{};  // peers that spin() polls; 0: none
  std::size_t next_busy_ = 0;
  int polls_without_look_ = 0;
  Clock::time_point looked_{};
  Yielding yielding_;
};

NetTransport::NetTransport(const TransportOptions& options, Receiver& receiver)
    : options_(options),
      spin_(std::thread::hardware_concurrency() > 1 ? options.spin : std::chrono::microseconds(0)),
      receiver_(receiver),
      factory_(options),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  poller_.add(wake_.fd(), POLLIN, kWakeNumber);
  poller_.add(unidentified_poller_.fd(), POLLIN, kStrangersNumber);
}

NetTransport::~NetTransport() {
  for (auto& [number, peer] : peers_) {
    if (peer->stage == NetPeer::Stage::open) peer->connection->finish_sending();
  }
}

NetPeer* NetTransport::find(Peer peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.get();
}

std::string NetTransport::listen(const std::string& text) {
  Address address = address_to_listen_at(text);
  for (Listener& listener : factory_.open(address)) {
    unidentified_poller_.add(listener.socket.fd(), POLLIN, kFirstListener + listeners_.size());
    listeners_.push_back(std::move(listener));
  }
  return address.text();
}

FdPoller& NetTransport::poller_of(const NetPeer& peer) {
  return peer.client || is_let_in(peer) ? poller_ : unidentified_poller_;
}

NetPeer& NetTransport::add(bool client) {
  const Peer number = ++last_peer_;
  auto& place = peers_[number];
  place = std::make_unique<NetPeer>(number, client, options_, receiver_);
  if (!client) ++accepted_;
  deadlines_[number] = Clock::now() + options_.handshake_timeout;
  return *place;
}

void NetTransport::enter(NetPeer& peer, NewConnection fresh) {
  peer.way = fresh.way;
  peer.connection = std::move(fresh.connection);
  const bool local = peer.way == Way::local;
  using Side = Handshake::Side;
  peer.handshake.emplace(peer.client ? Side::client : Side::server, local, options_.shared_memory);
  if (!peer.client || local) peer.stage = NetPeer::Stage::handshake;
  if (!peer.client && peer.way == Way::refused) {
    peer.stage = NetPeer::Stage::refusing;
    refuse(peer, "it does not come as processes of this host do");
    say_refused(peer.connection->socket());
  }
  if (peer.stage == NetPeer::Stage::connecting) peer.watched = POLLOUT;
  poller_of(peer).add(peer.connection->socket().fd(), peer.watched, peer.number);
  if (peer.client) make_ready(peer);
}

Peer NetTransport::connect(const std::string& text) {
  parse_address_of_peer(text);
  NetPeer& peer = add(true);
  peer.address = text;
  try {
    enter(peer, factory_.connect(address_to_connect_to(text)));
  } catch (const CommError& error) {
    peer.hopeless = dynamic_cast<const net_detail::LocalFailure*>(&error) != nullptr;
    failures_.emplace_back(peer.number, error.what());
  }
  return peer.number;
}

void NetTransport::send(Peer number, Message message) {
  check_size(message, options_);
  NetPeer* peer = find(number);
  if (!peer) return;
  peer->sender.push(std::move(message));
  if (peer->stage == NetPeer::Stage::open) make_ready(*peer);
}

std::size_t NetTransport::queued(Peer number) const {
  const NetPeer* peer = find(number);
  return peer ? peer->sender.bytes() : 0;
}

void NetTransport::close(Peer number) {
  NetPeer* peer = find(number);
  if (!peer) return;
  if (peer->stage == NetPeer::Stage::open) peer->connection->finish_sending();
  forget(*peer);
}

// The peer is destroyed later, with its socket, since a call of the receiver may still use it.
void NetTransport::forget(NetPeer& peer) {
  peer.gone = true;
  const auto found = peers_.find(peer.number);
  deadlines_.erase(peer.number);
  if (!peer.client) --accepted_;
  if (is_let_in(peer)) --let_in_;
  closed_.push_back(std::move(found->second));
  peers_.erase(found);
}

void NetTransport::lose(NetPeer& peer, const std::string& why) {
  if (peer.gone) return;
  const Peer number = peer.number;
  const bool known = peer.client || peer.stage == NetPeer::Stage::open, hopeless = peer.hopeless;
  if (!known && !peer.has_left && peer.stage != NetPeer::Stage::refusing) refuse(peer, why);
  forget(peer);
  if (!known) return;
  hopeless ? receiver_.cannot_connect(number, why) : receiver_.disconnected(number, why);
}

void NetTransport::refuse(const NetPeer& stranger, const std::string& why) {
  ++refused_connections_.refused;
  refused_connections_.last = other_side(stranger.connection->socket()) + ": " + why;
}

void NetTransport::wake() noexcept {
  woken_.store(true);
  if (sleeps_.load()) wake_.signal();
}

void NetTransport::poll(std::chrono::microseconds timeout) {
  const auto end = Clock::now() + timeout;
  closed_.clear();
  if (work()) {
    look_now_and_then();
    return;
  }
  const bool spun = spin_.count() > 0 && spin(std::min(end, Clock::now() + spin_), kNever);
  // A thread that is woken again and again still has to poll connections that are neither ready nor busy.
  const bool rests = !spun && (!woken_.load() || ++polls_without_look_ >= kBusyPolls);
  if (rests) {
    register_all_events();
    sleep(end);
    work();
  }
  woken_.exchange(false);  // synchronises with wake(): this thread sees what was done before wake()
  closed_.clear();
}

bool NetTransport::spin(const std::atomic<std::uint32_t>& over) {
  closed_.clear();
  const bool moved = work() || spin(Clock::now() + spin_, over);
  if (moved) look_now_and_then();
  woken_.exchange(false);  // synchronises with wake()
  closed_.clear();
  return moved;
}

// Sends only. Peers stay in ready_: the next poll() receives from them, and finds ended connections.
void NetTransport::flush() {
  for (const Peer number : ready_) {
    NetPeer* peer = find(number);
    if (!peer || peer->stage != NetPeer::Stage::open || peer->sender.empty()) continue;
    try {
      if (peer->sender.send(*peer->connection).any) mark_busy(number);
    } catch (const std::exception& error) {
      failures_.emplace_back(number, error.what());
    }
  }
}

// Sends and receives on the peers in ready_. False: nothing was moved, and the receiver was not called.
bool NetTransport::work() {
  bool moved = !failures_.empty();
  report_failures();
  check_deadlines();
  check_keys();
  for (const Peer number : std::exchange(ready_, {})) {
    NetPeer* peer = find(number);
    if (!peer) continue;
    peer->ready = false;
    moved = progress(*peer) || moved;
  }
  return moved;
}

void NetTransport::report_failures() {
  for (const auto& [number, why] : std::exchange(failures_, {})) {
    if (NetPeer* peer = find(number)) lose(*peer, why);
  }
}

void NetTransport::check_deadlines() {
  if (deadlines_.empty() || Clock::now() < deadlines_.begin()->second) return;
  const auto now = Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->second <= now)
    lose(*find(deadlines_.begin()->first), "the other side has not answered in time");
}

// Disconnects peers whose key was removed from comm.allowed, or has lost a role or a job.
void NetTransport::check_keys() {
  if (!factory_.changed_keys()) return;
  for (const auto& [number, peer] : peers_) {
    if (peer->gone || peer->stage != NetPeer::Stage::open) continue;
    const std::string key = peer->connection->peer_key();
    if (!factory_.allows(key))
      failures_.emplace_back(number, "its key " + key + " is no longer in comm.allowed");
    else if (const KeyRoles roles = factory_.roles_of(key); !roles.includes(peer->roles))
      failures_.emplace_back(number, lost_role(key));
    else
      peer->roles = roles;  // compared with the key's roles after the next change of the files
  }
}

// Sends and receives for a peer. Any error of its connection, or of the receiver, ends the connection.
bool NetTransport::progress(NetPeer& peer) {
  try {
    return step(peer);
  } catch (const std::exception& error) {
    peer.has_left = dynamic_cast<const PeerLeft*>(&error) != nullptr;
    lose(peer, error.what());
    return true;
  }
}

bool NetTransport::step(NetPeer& peer) {
  if (peer.stage == NetPeer::Stage::refusing) return linger(peer);
  if (peer.stage == NetPeer::Stage::connecting) check_connected(peer);
  bool moved = false;
  if (peer.stage == NetPeer::Stage::handshake) moved = shake_hands(peer);
  if (!peer.gone && peer.stage == NetPeer::Stage::open) moved = move(peer) || moved;
  if (!peer.gone && !std::exchange(peer.unregistered, true)) unregistered_.push_back(peer.number);
  return moved;
}

void NetTransport::check_connected(NetPeer& peer) {
  const auto error = connected(peer.connection->socket());
  if (!error) return;
  if (*error)
    throw CommError("cannot connect to " + peer.address + ": " + std::generic_category().message(*error));
  // A process listens at the TCP port, but not at the unix socket of this address, which is tried first.
  if (peer.way == Way::refused)
    throw CommError(peer.address +
                    " takes no processes of this host that do not encrypt: it encrypts (and this "
                    "side is to, too: encrypt_loopback), or it is no key-value store of Heddle");
  peer.stage = NetPeer::Stage::handshake;
}

bool NetTransport::shake_hands(NetPeer& peer) {
  if (!peer.handshake->step(peer.connection)) return false;
  const std::string key = peer.connection->peer_key();
  if (!factory_.allows(key)) throw CommError("its key " + key + " is no longer in comm.allowed");
  peer.roles = factory_.roles_of(key);
  if (peer.client && !peer.roles.server) throw CommError(no_server(key));
  peer.is_ring = peer.handshake->shares_memory();
  peer.handshake.reset();
  const int fd = peer.connection->socket().fd();
  if (!peer.client) unidentified_poller_.remove(fd);
  peer.stage = NetPeer::Stage::open;
  if (!peer.client) poller_.add(fd, peer.watched, peer.number), ++let_in_;
  deadlines_.erase(peer.number);
  receiver_.connected(peer.number, key);
  return true;
}

// A refused peer gets the time to read why: closing a socket with unread data discards what was sent.
bool NetTransport::linger(NetPeer& peer) {
  std::array<std::byte, 4096> unread;
  const net_detail::Step step = peer.connection->receive(unread, {});
  if (step.outcome == net_detail::Step::Outcome::closed) forget(peer);
  return false;
}

bool NetTransport::move(NetPeer& peer) {
  const Moved out = peer.sender.empty() ? Moved{} : peer.sender.send(*peer.connection);
  // What the peer sent before it closed is received even if sending fails.
  const Moved in = peer.receiver.receive(*peer.connection, !peer.is_ring, peer.gone);
  if (peer.gone) return true;
  if (in.closed || (out.closed && !in.any)) {
    const std::string why = peer.connection->handshake_error();
    throw CommError(why.empty() ? kPeerClosed : why);
  }
  if (in.more || out.more || out.closed) make_ready(peer);
  if (in.any || out.any) mark_busy(peer.number);
  return in.any || out.any;
}

void NetTransport::make_ready(NetPeer& peer) {
  if (!std::exchange(peer.ready, true)) ready_.push_back(peer.number);
}

void NetTransport::mark_busy(Peer peer) {
  if (std::find(busy_.begin(), busy_.end(), peer) != busy_.end()) return;
  busy_[next_busy_] = peer;
  next_busy_ = (next_busy_ + 1) % kMostBusy;
}

// Polls busy peers, since a process that polls gets the next message sooner than one that sleeps, and through
// shared memory without a system call.
bool NetTransport::spin(Clock::time_point end, const std::atomic<std::uint32_t>& over) {
  if (std::all_of(busy_.begin(), busy_.end(), [](Peer peer) { return peer == 0; })) return false;
  const auto wanted = [&] {
    return !woken_.load(std::memory_order_relaxed) && !over.load(std::memory_order_acquire);
  };
  for (int round = 1; wanted(); ++round) {
    bool moved = false;
    for (Peer& busy : busy_) {
      NetPeer* peer = busy ? find(busy) : nullptr;
      if (!peer) busy = 0;
      if (peer) moved = progress(*peer) || moved;
    }
    if (moved) return true;
    if (round % kRoundsBetweenLooks == 0) {
      look({});
      if (work()) return true;
    }
    if (round % kRoundsBetweenClocks != 0) continue;
    const auto now = Clock::now();
    if (now >= end) {
      busy_.fill(0);
      break;
    }
    if (yielding_.allows(now)) yielding_.yield(now);
  }
  return false;
}

// Registers the events that the peer waits for. False: there is something to do at once.
bool NetTransport::register_events(NetPeer& peer) {
  const bool shaking = peer.stage == NetPeer::Stage::handshake;
  const bool sends = shaking ? peer.handshake->wants_to_send() : !peer.sender.empty();
  short events = POLLOUT;
  if (peer.stage != NetPeer::Stage::connecting) {
    const auto wanted = peer.connection->before_sleep(sends, !shaking || !sends);
    if (!wanted) return false;
    events = wanted->events;
  }
  if (std::exchange(peer.watched, events) != events)
    poller_of(peer).change(peer.connection->socket().fd(), events, peer.number);
  return true;
}

void NetTransport::register_all_events() {
  for (const Peer number : std::exchange(unregistered_, {})) {
    NetPeer* peer = find(number);
    if (!peer) continue;
    peer->unregistered = false;
    if (!register_events(*peer)) make_ready(*peer);
  }
}

std::chrono::nanoseconds NetTransport::time_to_sleep(Clock::time_point end) const {
  if (!ready_.empty() || !failures_.empty() || woken_.load()) return {};
  if (!watches_unidentified_) end = std::min(end, unidentified_share_.next());
  if (!deadlines_.empty()) end = std::min(end, deadlines_.begin()->second);
  return std::max(end - Clock::now(), Clock::duration::zero());
}

// sleep() and wake() store a flag each and then load the other's, sequentially consistent: no wake() is lost.
void NetTransport::sleep(Clock::time_point end) {
  sleeps_.store(true);
  look(woken_.load() ? std::chrono::nanoseconds{} : time_to_sleep(end));
  sleeps_.store(false);
}

// Polls all peers now and then while some are busy, so that the others do not wait for long.
void NetTransport::look_now_and_then() {
  if (++polls_without_look_ >= kBusyPolls || Clock::now() - looked_ > kBusyTime) look({});
}

void NetTransport::look(std::chrono::nanoseconds timeout) {
  polls_without_look_ = 0;
  watch_unidentified(let_in_ == 0 || watches_unidentified_ || unidentified_share_.allows(Clock::now()));
  const auto found = poller_.wait(timeout);
  looked_ = Clock::now();
  for (const std::uint64_t number : found) {
    if (number == kWakeNumber) {
      wake_.clear();
      woken_.store(true);
    } else if (number == kStrangersNumber) {
      progress_unidentified();
    } else if (NetPeer* peer = find(number)) {
      make_ready(*peer);
    }
  }
}

void NetTransport::watch_unidentified(bool watch) {
  if (std::exchange(watches_unidentified_, watch) != watch)
    poller_.change(unidentified_poller_.fd(), watch ? POLLIN : 0, kStrangersNumber);
}

// Accepts one connection, or takes one step of a handshake, before other peers are handled again.
void NetTransport::progress_unidentified() {
  const auto begin = Clock::now();
  for (const std::uint64_t number : unidentified_poller_.wait({}, 1)) {
    if (number >= kFirstListener) {
      accept_from(listeners_[number - kFirstListener]);
    } else if (NetPeer* peer = find(number)) {
      progress(*peer);
    }
  }
  const auto end = Clock::now();
  unidentified_share_.spend(begin, end);
  if (let_in_ > 0 && !unidentified_share_.allows(end)) watch_unidentified(false);
}

void NetTransport::accept_from(const Listener& listener) {
  auto fresh = factory_.accept(listener);
  if (!fresh) {
    if (errno == EMFILE || errno == ENFILE) make_room_for_a_descriptor(listener);
    return;
  }
  if (fresh->connection) {
    accept_one(std::move(*fresh));
  } else {
    ++refused_connections_.refused;
    refused_connections_.last = "a process of another user of this host";
  }
  closed_.clear();  // frees descriptors of closed peers at once, as no call is under way
}

void NetTransport::accept_one(NewConnection fresh) {
  if (accepted_ >= options_.max_connections) drop_oldest_unauthenticated();
  if (accepted_ >= options_.max_connections) {  // `fresh` is closed on return
    ++refused_connections_.refused;
    refused_connections_.last =
        other_side(fresh.connection->socket()) + ": there are max-connections already";
    return;
  }
  if (deadlines_.size() >= kMostUnauthenticated) drop_oldest_unauthenticated();
  NetPeer& peer = add(false);
  try {
    enter(peer, std::move(fresh));
  } catch (const CommError&) {  // epoll takes no more connections
    forget(peer);
  }
}

// Accepts and closes a connection with the spare descriptor: in the backlog it would keep the listener ready.
void NetTransport::make_room_for_a_descriptor(const Listener& listener) {
  spare_.close();
  if (const Socket refused = net_detail::accept_from(listener.socket)) {
    ++refused_connections_.refused;
    refused_connections_.last =
        other_side(refused) + ": there are no descriptors left (ulimit -n, or LimitNOFILE of systemd)";
  }
  spare_ = Socket(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void NetTransport::drop_oldest_unauthenticated() {
  const auto oldest = std::find_if(deadlines_.begin(), deadlines_.end(),
                                   [&](const auto& one) { return !find(one.first)->client; });
  if (oldest == deadlines_.end()) return;
  NetPeer& peer = *find(oldest->first);
  if (peer.stage != NetPeer::Stage::refusing) refuse(peer, "too many connections wait to be let in");
  forget(peer);
}

}  // namespace

std::unique_ptr<Transport> make_net_transport(const TransportOptions& options, Receiver& receiver) {
  return std::make_unique<NetTransport>(options, receiver);
}

}  // namespace heddle::net_detail
