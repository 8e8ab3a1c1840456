// A process has one ROUTER socket if it listens, and a DEALER socket for each connect(). A message has three
// parts: the preamble, the head and the payload. A message of one part is control: the hello that each side
// sends first, or a goodbye with its reason.
//
// A ROUTER cannot close one of its connections. A closed peer is sent a goodbye, and its later messages are
// discarded. ZeroMQ bounds each part of a message, not their number: an authenticated peer could fill the
// memory of this process with a message of many parts.
//
// Loopback addresses are unix sockets, which prove the peer's user (see address.h); others are TCP with
// CURVE. A CURVE client has to know the server's key: it tries those of comm.allowed, its own first.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <heddle/comm_error.h>

#include "connection/interfaces.h"
#include "transport/address.h"
#include "transport/frame.h"
#include "transport/key_watch.h"
#include "transport/send_queue.h"
#include "transport/transport.h"
#include "zmq/zmq_curve.h"
#include "zmq/zmq_peer.h"
#include "zmq/zmq_socket.h"

namespace heddle::net_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHello = "heddle-kv 1";
constexpr const char* kGoodbye = "goodbye ";
constexpr const char* kLocalKind = "zmq";
// ZeroMQ's queue of a connection, in messages. Priorities only order messages that ZeroMQ has not taken.
constexpr int kHighWater = 8;
constexpr int kLinger = 500;  // ms in which a closed connection may send what ZeroMQ has taken
constexpr int kMessagesOfATurn = 256;
constexpr std::size_t kCurveOverhead = 256;  // most bytes that CURVE adds to a part
// A refused send is tried again after this time, since the descriptor does not tell when it may succeed.
constexpr std::chrono::milliseconds kRetry{1};

std::string endpoint_of(const Address& address, bool encrypted) {
  return encrypted ? "tcp://" + address.text() : "ipc://@" + local_name(kLocalKind, address);
}

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(const TransportOptions& options, Receiver& receiver)
      : options_(options), receiver_(receiver), context_(new_zmq_context()) {}
  ~ZmqTransport() override;

  std::string listen(const std::string& address) override;
  Peer connect(const std::string& address) override;
  void send(Peer peer, Message message) override;
  std::size_t queued(Peer peer) const override;
  void close(Peer peer) override;
  void poll(std::chrono::microseconds timeout) override;
  void wake() noexcept override { wake_.signal(); }
  void flush() override { flush_all(); }
  KeyRoles roles_of(const std::string& key) const override {
    return keys_ ? roles_in(keys_->roles, key) : net_detail::kAllRoles;
  }

 private:
  using Parts = std::vector<ZmqPart>;

  void open_router(bool encrypted);
  void start_dealer(ZmqPeer& state);
  bool try_next_key(Peer peer, ZmqPeer& state);
  bool encrypts(const Address& address) const;
  const CurveKeys& keys(const Address& address);
  void prepare(ZmqSocket& socket) const;
  bool turn();
  bool report_failures();
  void read_router_events();
  bool read_router();
  bool read_dealer(Peer peer);
  void read_dealer_events(Peer peer, ZmqPeer& state);
  std::string refusal(const ZmqPeer& state) const;
  void refuse_plain_sockets();
  void check_deadlines();
  void check_keys();

  void from_router(Parts parts);
  void accept(const std::string& identity, int fd, ZmqPart& part);
  void handle(Peer peer, std::span<ZmqPart> parts);
  void handle_control(Peer peer, ZmqPeer& state, const std::string& text);
  void handle_message(Peer peer, std::span<ZmqPart> parts);
  void greeted(Peer peer, ZmqPeer& state);

  bool begin_message(Peer peer, ZmqPeer& state);
  bool flush(Peer peer, ZmqPeer& state);
  bool flush_all();
  bool say(ZmqPeer& state, const std::string& text);
  void say_goodbyes();
  void fail(Peer peer, const std::string& why);
  void forget(Peer peer, const std::string& why);
  void sleep(std::chrono::microseconds timeout);
  bool something_to_read() const;
  ZmqPeer* find(Peer peer);

  const TransportOptions options_;
  Receiver& receiver_;
  const ZmqContext context_;
  net_detail::EventFd wake_;
  std::optional<CurveKeys> keys_;      // read when a connection is first encrypted
  std::optional<KeyWatch> watch_;      // watches the files of keys_
  std::unique_ptr<CurveGuard> guard_;  // authenticates the peers of a router that encrypts
  std::unique_ptr<ZmqSocket> router_;
  std::unique_ptr<ZmqMonitor> router_monitor_;
  std::vector<Socket> reserved_ports_;  // TCP ports of listen() on loopback, where ZeroMQ uses unix sockets
  std::map<Peer, ZmqPeer> peers_;
  std::map<std::string, Peer> by_identity_;
  std::set<int> open_fds_;                // descriptors of the router's connections
  std::map<int, Peer> by_fd_;             // peers that have said hello, by descriptor
  std::map<Peer, std::string> failures_;  // errors to report, after the messages that came before them
  std::deque<std::pair<std::string, std::string>> goodbyes_;  // identity of the peer, and reason
  Peer last_peer_ = 0;
  bool blocked_ = false;  // whether ZeroMQ has refused a message, which is to be sent again
  bool unread_ = false;   // whether the last turn() has not read everything
};

ZmqTransport::~ZmqTransport() {
  for (auto& [peer, state] : peers_) {
    if (!state.dealer) continue;
    const int none = 0;
    if (!state.greeted) zmq_setsockopt(state.dealer->socket.get(), ZMQ_LINGER, &none, sizeof none);
  }
}

ZmqPeer* ZmqTransport::find(Peer peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : &found->second;
}

void ZmqTransport::prepare(ZmqSocket& socket) const {
  const std::size_t largest = std::max({options_.max_head, options_.max_payload, std::size_t{1024}});
  const auto longest = static_cast<std::int64_t>(largest + kCurveOverhead);
  if (zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &longest, sizeof longest) != 0)
    throw_zmq_error("the largest message of ZeroMQ");
  socket.set(ZMQ_SNDHWM, kHighWater);
  socket.set(ZMQ_RCVHWM, kHighWater);
  socket.set(ZMQ_LINGER, kLinger);
  socket.set(ZMQ_RECONNECT_IVL, -1);  // -1: never reconnect, since a new connection is a new peer
  socket.set(ZMQ_HANDSHAKE_IVL, static_cast<int>(options_.handshake_timeout.count()));
}

bool ZmqTransport::encrypts(const Address& address) const {
  return options_.encrypt_loopback || !net_detail::is_loopback_address(address.host);
}

const CurveKeys& ZmqTransport::keys(const Address& address) {
  if (keys_) return *keys_;
  try {
    watch_.emplace(options_.keys);
    keys_ = read_curve_keys(options_.keys, "ZeroMQ is to encrypt at " + address.text());
  } catch (const CommError& error) {
    net_detail::throw_of_keys(error);
  }
  return *keys_;
}

// Disconnects peers whose key was removed from comm.allowed, or has lost a role or a job. A socket that
// listens keeps the key of this host that it was made with.
void ZmqTransport::check_keys() {
  const auto files = keys_ ? watch_->changed() : std::nullopt;
  if (!files || files->curve_secret.empty()) return;
  keys_ = curve_keys_in(*files);
  if (guard_) guard_->set_allowed(keys_->allowed);
  for (auto& [peer, state] : peers_) {
    const bool allowed = keys_->allow(state.key), keeps = roles_of(state.key).includes(state.roles);
    if (state.greeted && allowed && keeps) state.roles = roles_of(state.key);  // for the next change of keys
    if (!state.greeted || (allowed && keeps)) continue;
    state.revoked = true;
    fail(peer, allowed ? lost_role(state.key) : "its key " + state.key + " is no longer in comm.allowed");
  }
}

void ZmqTransport::open_router(bool encrypted) {
  if (router_ && encrypted != (guard_ != nullptr))
    throw CommError("the transport zmq listens either at addresses that it encrypts at, or at others");
  if (router_) return;
  if (encrypted) guard_ = std::make_unique<CurveGuard>(context_, keys_->allowed);
  auto router = std::make_unique<ZmqSocket>(context_, ZMQ_ROUTER);
  prepare(*router);
  router->set(ZMQ_ROUTER_MANDATORY, 1);
  const uid_t user = geteuid();
  if (zmq_setsockopt(router->get(), ZMQ_IPC_FILTER_UID, &user, sizeof user) != 0)
    throw_zmq_error("ZeroMQ cannot refuse other users");
  if (encrypted) encrypt_server(*router, *keys_);
  router_monitor_ = std::make_unique<ZmqMonitor>(context_, *router);
  router_ = std::move(router);
}

std::string ZmqTransport::listen(const std::string& text) {
  Address address = address_to_listen_at(text);
  const bool encrypted = encrypts(address);
  if (encrypted) keys(address);
  open_router(encrypted);
  Socket reserved = net_detail::listen_on(address.host, {address.port, address.port}, SOMAXCONN);
  address.port = net_detail::port_of(reserved);
  if (encrypted) reserved.close();
  const std::string name = endpoint_of(address, encrypted);
  if (zmq_bind(router_->get(), name.c_str()) != 0)
    throw_zmq_error("cannot listen at " + address.text() + " (" + name + ")");
  if (reserved) reserved_ports_.push_back(std::move(reserved));
  return address.text();
}

Peer ZmqTransport::connect(const std::string& text) {
  parse_address_of_peer(text);
  const Peer peer = ++last_peer_;
  ZmqPeer& state = peers_[peer];
  state.deadline = Clock::now() + options_.handshake_timeout;
  try {
    state.address = address_to_connect_to(text);
    if (encrypts(state.address)) state.keys = keys(state.address).servers();
    start_dealer(state);
  } catch (const CommError& error) {
    state.hopeless = dynamic_cast<const net_detail::LocalFailure*>(&error) != nullptr;
    fail(peer, error.what());
  }
  return peer;
}

void ZmqTransport::start_dealer(ZmqPeer& state) {
  const bool encrypted = encrypts(state.address);
  state.dealer.reset();
  auto dealer = std::make_unique<ZmqDealer>(context_);
  prepare(dealer->socket);
  if (encrypted) {
    state.key = state.keys.back();
    state.keys.pop_back();
    encrypt_client(dealer->socket, *keys_, state.key);
    state.key = kCurveName + state.key;
  }
  if (zmq_connect(dealer->socket.get(), endpoint_of(state.address, encrypted).c_str()) != 0)
    throw_zmq_error("cannot connect to " + state.address.text());
  state.dealer = std::move(dealer);
  say(state, kHello);
}

// The server has refused the connection, perhaps because it has another key: tries the next key.
bool ZmqTransport::try_next_key(Peer peer, ZmqPeer& state) {
  if (state.greeted || state.keys.empty()) return false;
  state.dealer->socket.set(ZMQ_LINGER, 0);
  try {
    start_dealer(state);
  } catch (const CommError& error) {
    fail(peer, error.what());
  }
  return true;
}

void ZmqTransport::send(Peer peer, Message message) {
  check_size(message, options_);
  if (ZmqPeer* state = find(peer)) state->queue.push(std::move(message));
}

std::size_t ZmqTransport::queued(Peer peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.queue.bytes();
}

void ZmqTransport::close(Peer peer) { forget(peer, kPeerClosed); }

// A peer of the router is sent the reason, as its connection stays open.
void ZmqTransport::forget(Peer peer, const std::string& why) {
  failures_.erase(peer);
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  ZmqPeer& state = found->second;
  if (!state.identity.empty()) {
    by_identity_.erase(state.identity);
    const auto of_fd = by_fd_.find(state.fd);  // the descriptor may belong to the peer of a later connection
    const bool is_open = of_fd != by_fd_.end() && of_fd->second == peer;
    if (is_open) by_fd_.erase(of_fd);
    if (is_open) goodbyes_.emplace_back(state.identity, why);
  } else if (state.dealer && !state.greeted) {
    state.dealer->socket.set(ZMQ_LINGER, 0);
  }
  peers_.erase(found);
}

// Notes a failure for the next turn() that reads everything: here the receiver may not be called.
void ZmqTransport::fail(Peer peer, const std::string& why) { failures_.try_emplace(peer, why); }

bool ZmqTransport::report_failures() {
  if (failures_.empty() || unread_) return false;
  for (auto [peer, why] : std::exchange(failures_, {})) {
    const ZmqPeer* state = find(peer);
    if (!state) continue;                                          // the owner has closed the peer
    const bool known = state->identity.empty() || state->greeted;  // whether the receiver knows the peer
    const bool hopeless = state->hopeless;
    forget(peer, why);
    if (!known) continue;
    hopeless ? receiver_.cannot_connect(peer, why) : receiver_.disconnected(peer, why);
  }
  return true;
}

void ZmqTransport::poll(std::chrono::microseconds timeout) {
  if (turn()) return;
  sleep(timeout);
  turn();
}

bool ZmqTransport::turn() {
  refuse_plain_sockets();
  check_deadlines();
  check_keys();
  if (guard_) guard_->answer();
  bool moved = false;
  unread_ = false;
  if (router_) {
    read_router_events();
    moved = read_router();
  }
  std::vector<Peer> dealers;
  for (const auto& [peer, state] : peers_) {
    if (state.dealer) dealers.push_back(peer);
  }
  for (const Peer peer : dealers) moved = read_dealer(peer) || moved;
  say_goodbyes();
  moved = flush_all() || moved;
  return report_failures() || moved;
}

// Descriptors are used again for later connections. Events come in order, and before the messages of the
// connection that they announce, as one thread of ZeroMQ's writes both.
void ZmqTransport::read_router_events() {
  while (const auto event = router_monitor_->next()) {
    if (event->what == ZMQ_EVENT_ACCEPTED) open_fds_.insert(event->value);
    if (event->what != ZMQ_EVENT_DISCONNECTED && event->what != ZMQ_EVENT_CLOSED) continue;
    open_fds_.erase(event->value);
    if (const auto found = by_fd_.find(event->value); found != by_fd_.end()) {
      fail(found->second, kPeerClosed);
      by_fd_.erase(found);
    }
  }
}

bool ZmqTransport::read_router() {
  for (int i = 0; i < kMessagesOfATurn; ++i) {
    auto parts = router_->receive();
    if (!parts) return i > 0;
    from_router(std::move(*parts));
  }
  return unread_ = true;
}

void ZmqTransport::from_router(Parts parts) {
  const std::string identity = parts.front().text();
  if (parts.size() < 2) return;
  if (const auto found = by_identity_.find(identity); found != by_identity_.end())
    return handle(found->second, std::span(parts).subspan(1));
  const std::string fd = parts[1].property("__fd");
  if (parts.size() == 2 && !fd.empty()) accept(identity, std::atoi(fd.c_str()), parts[1]);
}

void ZmqTransport::accept(const std::string& identity, int fd, ZmqPart& part) {
  read_router_events();
  if (!open_fds_.contains(fd) || part.text() != kHello) return;
  if (by_identity_.size() >= options_.max_connections)
    return void(goodbyes_.emplace_back(identity, "it has too many connections"));
  const std::string user = part.property("User-Id");
  // ZeroMQ keeps a connection whose key was allowed before.
  if (guard_ && !keys_->allow(user))
    return void(goodbyes_.emplace_back(identity, "its key is no longer in comm.allowed"));
  if (const auto older = by_fd_.find(fd); older != by_fd_.end()) fail(older->second, kPeerClosed);
  const Peer peer = ++last_peer_;
  ZmqPeer& state = peers_[peer];
  state.identity = identity;
  state.fd = fd;
  if (guard_) state.key = user;
  by_identity_[identity] = by_fd_[fd] = peer;
  say(state, kHello);
  greeted(peer, state);
}

void ZmqTransport::greeted(Peer peer, ZmqPeer& state) {
  state.greeted = true;
  state.roles = roles_of(state.key);
  try {
    receiver_.connected(peer, state.key);
  } catch (const std::exception& error) {
    fail(peer, error.what());
  }
}

bool ZmqTransport::read_dealer(Peer peer) {
  for (int i = 0; i < kMessagesOfATurn; ++i) {
    ZmqPeer* state = find(peer);
    if (!state) return true;
    if (i == 0) read_dealer_events(peer, *state);
    if (!state->dealer) return true;  // true: no socket could be made for the next key
    auto parts = state->dealer->socket.receive();
    if (!parts) return i > 0;
    handle(peer, *parts);
  }
  return unread_ = true;
}

std::string ZmqTransport::refusal(const ZmqPeer& state) const {
  std::string why = "the other side has refused the connection";
  if (encrypts(state.address))
    why += ": it does not encrypt, or its comm.allowed has no line with this host's curve:" + keys_->open +
           ", or none of this host's has its key";
  return why;
}

// Reads events until the peer gets another dealer, for the next key.
void ZmqTransport::read_dealer_events(Peer peer, ZmqPeer& state) {
  while (const auto event = state.dealer->monitor.next()) {
    switch (event->what) {
      case ZMQ_EVENT_CONNECTED:
        if (!encrypts(state.address) && !is_same_user(event->value))
          fail(peer, "another user's process listens there");
        break;
      case ZMQ_EVENT_CLOSED:
      case ZMQ_EVENT_CONNECT_RETRIED:
        fail(peer, "nobody listens there");
        break;
      case ZMQ_EVENT_DISCONNECTED:
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        if (try_next_key(peer, state)) return;
        fail(peer, state.greeted ? kPeerClosed : refusal(state));
        break;
      default:
        break;
    }
  }
}

void ZmqTransport::handle(Peer peer, std::span<ZmqPart> parts) {
  ZmqPeer* state = find(peer);
  if (!state || state->revoked) return;
  if (parts.size() == 1) return handle_control(peer, *state, parts[0].text());
  if (!state->greeted) return fail(peer, "the other side does not begin with a hello");
  try {
    handle_message(peer, parts);
  } catch (const std::exception& error) {
    // What the peer has sent after this message is not read.
    const std::string why = error.what();
    if (!find(peer)) return;
    forget(peer, "it has refused a message: " + why);
    receiver_.disconnected(peer, why);
  }
}

void ZmqTransport::handle_control(Peer peer, ZmqPeer& state, const std::string& text) {
  if (state.dealer && !state.greeted && text == kHello) return greeted(peer, state);
  if (text.starts_with(kGoodbye)) return fail(peer, text.substr(std::strlen(kGoodbye)));
  fail(peer, "a broken message: it has no head");
}

void ZmqTransport::handle_message(Peer peer, std::span<ZmqPart> parts) {
  if (parts.size() != 3 || parts[0].bytes().size() != kPreambleBytes)
    throw CommError("a broken message: it does not begin as one");
  const auto wire = std::span<const std::byte>(parts[0].bytes()).first<kPreambleBytes>();
  const Preamble preamble = decode(wire, {options_.max_head, options_.max_payload});
  const auto head = parts[1].bytes();
  auto payload = parts[2].bytes();
  check_head(preamble, head);
  check_payload(preamble, payload);
  if (!payload.empty()) {
    const auto memory = receiver_.memory_for(peer, head, payload.size());
    if (!find(peer)) return;
    if (!memory.empty()) {
      if (memory.size() < payload.size()) throw CommError("there is too little memory for the payload");
      std::memcpy(memory.data(), payload.data(), payload.size());
      payload = memory.first(payload.size());
    }
  }
  receiver_.received(peer, head, payload);
}

// Sends a control message. False: ZeroMQ takes nothing now.
bool ZmqTransport::say(ZmqPeer& state, const std::string& text) {
  Parts parts;
  if (!state.dealer) parts.emplace_back(std::as_bytes(std::span(state.identity)));
  parts.emplace_back(std::as_bytes(std::span(text)));
  return (state.dealer ? state.dealer->socket : *router_).send(parts);
}

void ZmqTransport::say_goodbyes() {
  for (std::size_t left = goodbyes_.size(); left > 0; --left) {
    auto [identity, why] = std::move(goodbyes_.front());
    goodbyes_.pop_front();
    ZmqPeer state;
    state.identity = identity;
    if (!say(state, kGoodbye + why) && errno == EAGAIN) goodbyes_.emplace_back(identity, why);
  }
}

bool ZmqTransport::flush_all() {
  blocked_ = !goodbyes_.empty();
  bool moved = false;
  for (auto& [peer, state] : peers_) {
    if (state.greeted && !state.queue.empty()) moved = flush(peer, state) || moved;
  }
  return moved;
}

// True if ZeroMQ takes a message for the peer now. A router has then taken its first part, the identity.
bool ZmqTransport::begin_message(Peer peer, ZmqPeer& state) {
  if (state.dealer) {
    if ((state.dealer->socket.state() & ZMQ_POLLOUT) != 0) return true;
    return blocked_ = true, false;
  }
  if (router_->send(state.identity, ZMQ_SNDMORE)) return true;
  if (errno == EHOSTUNREACH)
    fail(peer, kPeerClosed);
  else
    blocked_ = true;
  return false;
}

bool ZmqTransport::flush(Peer peer, ZmqPeer& state) {
  bool moved = false;
  while (!state.queue.empty() && begin_message(peer, state)) {
    const Message message = state.queue.pop();
    const WirePreamble wire = encode(preamble_of(message.head, message.payload.bytes));
    Parts parts;
    parts.emplace_back(std::span<const std::byte>(wire));
    parts.emplace_back(std::span<const std::byte>(message.head));
    parts.emplace_back(message.payload);
    if (!(state.dealer ? state.dealer->socket : *router_).send(parts)) fail(peer, kPeerClosed);
    moved = true;
  }
  return moved;
}

// Reserves this transport's ports on loopback, where it uses unix sockets: TCP connections to these ports are
// closed.
void ZmqTransport::refuse_plain_sockets() {
  for (const Socket& reserved : reserved_ports_) {
    while (const Socket refused = net_detail::accept_from(reserved)) continue;
  }
}

void ZmqTransport::check_deadlines() {
  const auto now = Clock::now();
  for (const auto& [peer, state] : peers_) {
    if (!state.greeted && state.deadline <= now) fail(peer, "the other side has not answered in time");
  }
}

bool ZmqTransport::something_to_read() const {
  const auto readable = [](const auto& socket) { return (socket.state() & ZMQ_POLLIN) != 0; };
  if (router_ && (readable(*router_) || readable(*router_monitor_))) return true;
  if (guard_ && readable(guard_->socket())) return true;
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& one) {
    const auto& dealer = one.second.dealer;
    return dealer && (readable(dealer->socket) || readable(dealer->monitor));
  });
}

void ZmqTransport::sleep(std::chrono::microseconds timeout) {
  if (!failures_.empty() || something_to_read()) return;
  auto until = Clock::now() + timeout;
  std::vector<pollfd> polled{{wake_.fd(), POLLIN, 0}};
  for (const Socket& reserved : reserved_ports_) polled.push_back({reserved.fd(), POLLIN, 0});
  if (router_) {
    polled.push_back({router_->fd(), POLLIN, 0});
    polled.push_back({router_monitor_->fd(), POLLIN, 0});
  }
  if (guard_) polled.push_back({guard_->socket().fd(), POLLIN, 0});
  for (const auto& [peer, state] : peers_) {
    if (state.dealer) {
      polled.push_back({state.dealer->socket.fd(), POLLIN, 0});
      polled.push_back({state.dealer->monitor.fd(), POLLIN, 0});
    }
    if (!state.greeted) until = std::min(until, state.deadline);
  }
  if (blocked_) until = std::min(until, Clock::now() + kRetry);
  const auto left = std::chrono::nanoseconds(std::max(until - Clock::now(), Clock::duration::zero())).count();
  const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
  ::ppoll(polled.data(), polled.size(), &wait, nullptr);
  if ((polled.front().revents & POLLIN) != 0) wake_.clear();
}

}  // namespace

}  // namespace heddle::net_detail

extern "C" heddle::net_detail::Transport* make_heddle_zmq_transport(
    const heddle::net_detail::TransportOptions& options, heddle::net_detail::Receiver& receiver) {
  return new heddle::net_detail::ZmqTransport(options, receiver);
}
