#include "zmq/zmq_socket.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

constexpr int kMostSockets = 60'000;

// Keeps a payload until ZeroMQ's thread releases it. `ready` shows the order of the two threads to
// ThreadSanitizer, which does not see into ZeroMQ.
struct Kept {
  std::shared_ptr<const void> owner;
  std::atomic<bool> ready{false};
};

void release(void*, void* hint) {
  auto* kept = static_cast<Kept*>(hint);
  while (!kept->ready.load(std::memory_order_acquire)) continue;
  delete kept;
}

}  // namespace

void throw_zmq_error(const std::string& what) { throw CommError(what + ": " + zmq_strerror(zmq_errno())); }

ZmqPart::ZmqPart(std::span<const std::byte> bytes) {
  if (zmq_msg_init_size(&message_, bytes.size()) != 0) throw_zmq_error("there is no memory for a message");
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&message_), bytes.data(), bytes.size());
}

ZmqPart::ZmqPart(Payload payload) {
  auto kept = std::make_unique<Kept>();
  kept->owner = std::move(payload.owner);
  kept->ready.store(true, std::memory_order_release);
  auto* data = const_cast<std::byte*>(payload.bytes.data());
  if (zmq_msg_init_data(&message_, data, payload.bytes.size(), release, kept.get()) != 0)
    throw_zmq_error("there is no memory for a message");
  kept.release();
}

std::span<std::byte> ZmqPart::bytes() {
  return {static_cast<std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
}

std::string ZmqPart::text() {
  const auto all = bytes();
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

std::string ZmqPart::property(const char* name) {
  const char* const text = zmq_msg_gets(&message_, name);
  return text ? text : "";
}

ZmqContext new_zmq_context() {
  ZmqContext context(zmq_ctx_new(), [](void* ended) {
    if (ended) zmq_ctx_term(ended);
  });
  if (!context) throw_zmq_error("no context of ZeroMQ");
  zmq_ctx_set(context.get(), ZMQ_MAX_SOCKETS, kMostSockets);
  return context;
}

ZmqSocket::ZmqSocket(ZmqContext context, int type)
    : context_(std::move(context)), socket_(zmq_socket(context_.get(), type), zmq_close) {
  if (!socket_) throw_zmq_error("no socket of ZeroMQ");
}

void ZmqSocket::set(int option, int value) {
  if (zmq_setsockopt(get(), option, &value, sizeof value) != 0)
    throw_zmq_error("ZeroMQ's option " + std::to_string(option));
}

void ZmqSocket::set(int option, const std::string& value) {
  if (zmq_setsockopt(get(), option, value.data(), value.size()) != 0)
    throw_zmq_error("ZeroMQ's option " + std::to_string(option));
}

int ZmqSocket::fd() const {
  int fd = -1;
  std::size_t size = sizeof fd;
  if (zmq_getsockopt(get(), ZMQ_FD, &fd, &size) != 0) throw_zmq_error("ZeroMQ's file descriptor");
  return fd;
}

short ZmqSocket::state() const {
  int events = 0;
  std::size_t size = sizeof events;
  if (zmq_getsockopt(get(), ZMQ_EVENTS, &events, &size) != 0) return 0;
  return static_cast<short>(events);
}

bool ZmqSocket::send(std::vector<ZmqPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int more = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
    if (zmq_msg_send(parts[i].get(), get(), ZMQ_DONTWAIT | more) >= 0) continue;
    if (errno == EAGAIN || errno == EHOSTUNREACH) return false;
    throw_zmq_error("sending with ZeroMQ");
  }
  return true;
}

bool ZmqSocket::send(const std::string& part, int flags) {
  if (zmq_send(get(), part.data(), part.size(), ZMQ_DONTWAIT | flags) >= 0) return true;
  if (errno == EAGAIN || errno == EHOSTUNREACH) return false;
  throw_zmq_error("sending with ZeroMQ");
}

std::optional<std::vector<ZmqPart>> ZmqSocket::receive() {
  std::vector<ZmqPart> parts;
  do {
    ZmqPart part;
    if (zmq_msg_recv(part.get(), get(), ZMQ_DONTWAIT) < 0) {
      if (errno == EAGAIN || errno == EINTR) return std::nullopt;
      throw_zmq_error("receiving with ZeroMQ");
    }
    parts.push_back(std::move(part));
  } while (zmq_msg_more(parts.back().get()));
  return parts;
}

ZmqMonitor::ZmqMonitor(const ZmqContext& context, ZmqSocket& watched)
    : socket_(context, ZMQ_PAIR), watched_(watched) {
  static std::atomic<std::uint64_t> count{0};
  const std::string address = "inproc://heddle-monitor-" + std::to_string(++count);
  if (zmq_socket_monitor(watched.get(), address.c_str(), ZMQ_EVENT_ALL) != 0 ||
      zmq_connect(socket_.get(), address.c_str()) != 0)
    throw_zmq_error("watching a socket of ZeroMQ");
}

// Stops the monitor before its socket is closed: ZeroMQ does not free an event that it cannot send.
ZmqMonitor::~ZmqMonitor() { zmq_socket_monitor(watched_.get(), nullptr, 0); }

std::optional<ZmqMonitor::Event> ZmqMonitor::next() {
  auto parts = socket_.receive();
  if (!parts) return std::nullopt;
  const auto bytes = parts->front().bytes();
  std::uint16_t what = 0;
  std::int32_t value = 0;
  if (bytes.size() != sizeof what + sizeof value) return Event{};
  std::memcpy(&what, bytes.data(), sizeof what);
  std::memcpy(&value, bytes.data() + sizeof what, sizeof value);
  return Event{what, value};
}

}  // namespace heddle::net_detail
