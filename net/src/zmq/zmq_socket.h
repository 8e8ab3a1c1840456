// Owners (RAII) of ZeroMQ's sockets and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zmq.h>

#include "transport/transport.h"

namespace heddle::net_detail {

// Owns one part of a message.
class ZmqPart {
 public:
  ZmqPart() { zmq_msg_init(&message_); }
  explicit ZmqPart(std::span<const std::byte> bytes);  // copies the bytes
  // Sends the bytes without a copy: the owner is released when ZeroMQ has sent them, on ZeroMQ's thread.
  explicit ZmqPart(Payload payload);
  ~ZmqPart() { zmq_msg_close(&message_); }
  ZmqPart(ZmqPart&& other) noexcept : ZmqPart() { zmq_msg_move(&message_, &other.message_); }
  ZmqPart& operator=(ZmqPart&&) = delete;

  zmq_msg_t* get() { return &message_; }
  std::span<std::byte> bytes();
  std::string text();
  // A property of the connection that the message came by, such as "User-Id"; empty: there is none.
  std::string property(const char* name);

 private:
  zmq_msg_t message_;
};

using ZmqContext = std::shared_ptr<void>;
ZmqContext new_zmq_context();  // throws CommError

// Owns a socket. One thread at a time. Its functions throw CommError, except for the errors that their own
// comments name.
class ZmqSocket {
 public:
  ZmqSocket(ZmqContext context, int type);
  void* get() const { return socket_.get(); }
  void set(int option, int value);
  void set(int option, const std::string& value);
  int fd() const;       // a descriptor that is readable when state() may have changed since its last call
  short state() const;  // ready events: ZMQ_POLLIN, ZMQ_POLLOUT
  // Sends all parts. False: nothing is sent, as the other side is slow (errno EAGAIN) or gone (EHOSTUNREACH).
  bool send(std::vector<ZmqPart>& parts);
  // Sends a message of one part; returns false in the same cases.
  bool send(const std::string& part, int flags);
  // Returns all parts of the next message; nullopt: there is none.
  std::optional<std::vector<ZmqPart>> receive();

 private:
  ZmqContext context_;  // outlives the socket
  std::unique_ptr<void, int (*)(void*)> socket_;
};

// Events of the connections of a socket, which outlives the monitor.
class ZmqMonitor {
 public:
  struct Event {
    int what = 0;   // the event, ZMQ_EVENT_...
    int value = 0;  // a file descriptor or errno
  };
  ZmqMonitor(const ZmqContext& context, ZmqSocket& watched);
  ~ZmqMonitor();
  ZmqMonitor(const ZmqMonitor&) = delete;
  ZmqMonitor& operator=(const ZmqMonitor&) = delete;
  std::optional<Event> next();
  int fd() const { return socket_.fd(); }
  short state() const { return socket_.state(); }

 private:
  ZmqSocket socket_;
  ZmqSocket& watched_;
};

[[noreturn]] void throw_zmq_error(const std::string& what);

}  // namespace heddle::net_detail
