// The sockets of a rendezvous: their addresses, and which processes may connect.
#pragma once

#include <memory>
#include <string>
#include <sys/stat.h>

#include <heddle/launch_environment.h>

#include "bootstrap/rendezvous_wire.h"
#include "bootstrap/security.h"

namespace heddle::comm_detail {

// LaunchEnvironment::rendezvous, parsed. Throws InvalidArgument.
struct RendezvousAddress {
  RendezvousAddress(const LaunchEnvironment& job, const SecurityPolicy& security);
  std::string text;  // LaunchEnvironment::rendezvous itself
  bool is_unix = false;
  std::string path;        // unix: the socket's path
  std::string host, port;  // tcp: host and port
  bool several_hosts = false;
  mutable SecurityPolicy security;  // caches the keys; one thread at a time
};

// The text "there is no directory DIR ..." if the directory of a unix socket does not exist, else empty.
std::string missing_directory(const RendezvousAddress& place);

// A listening socket. The destructor removes the file of a unix socket; a file that a dead job has left is
// replaced.
class Listener {
 public:
  // Begins to listen. Null: another process listens at this address, or the host name is not known yet. Then
  // `why` says which, and the caller may try again. Throws CommError for all other failures.
  static std::unique_ptr<Listener> open(const RendezvousAddress& place, std::string& why);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int socket() const { return socket_.fd(); }
  bool encrypts() const { return security_.encrypts(); }
  // The next connection; null if none is waiting, or the next one is from another user's process.
  std::unique_ptr<Channel> accept();

 private:
  Listener(Socket socket, std::string path, Security security)
      : socket_(std::move(socket)), path_(std::move(path)), security_(std::move(security)) {}
  Socket socket_;
  std::string path_;  // the file of a unix socket; empty for tcp
  Security security_;
  struct stat file_ = {};  // the file at path_ when it was made, so that no other file is removed
};

// Connects to the address. Null: no process listens there yet, or the host name is not known yet, as `why`
// says. Waits `milliseconds` at most for a host that does not answer. Throws what Listener::open throws.
std::unique_ptr<Channel> connect_to(const RendezvousAddress& place, int milliseconds, std::string& why);

}  // namespace heddle::comm_detail
