// The sockets of a rendezvous: where they lie, who may come.
#pragma once

#include <memory>
#include <string>
#include <sys/stat.h>

#include <heddle/launch_environment.h>

#include "bootstrap/rendezvous_wire.h"
#include "bootstrap/security.h"

namespace heddle::comm_detail {

// LaunchEnvironment::rendezvous, taken apart. Throws InvalidArgument.
struct MeetingPlace {
  MeetingPlace(const LaunchEnvironment& job, const SecurityPolicy& security);
  std::string text;  // as it was given, for messages
  bool is_unix = false;
  std::string path;        // of unix
  std::string host, port;  // of tcp
  bool several_hosts = false;
  mutable SecurityPolicy security;  // remembers the keys; one thread
};

// What is wrong with the directory of a unix socket: "there is no directory DIR ..."; empty if it is there.
std::string missing_directory(const MeetingPlace& place);

// Listens. A unix socket's file is removed with it; one that a dead job has left is replaced.
class Listener {
 public:
  // Null: somebody else listens there, or the name is not known yet: try again. Throws CommError for what will not change.
  static std::unique_ptr<Listener> open(const MeetingPlace& place);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int socket() const { return socket_.fd(); }
  bool encrypts() const { return security_.encrypts(); }
  // The next that has come; null if there is none, or it was another user's process.
  std::unique_ptr<Channel> accept();

 private:
  Listener(Socket socket, std::string path, Security security)
      : socket_(std::move(socket)), path_(std::move(path)), security_(std::move(security)) {}
  Socket socket_;
  std::string path_;  // empty for tcp
  Security security_;
  struct stat file_ = {};  // what lies at path_, so that nobody else's is removed
};

// Null: nobody listens there yet. Waits `milliseconds` at most for a host that does not answer. Throws as open does.
std::unique_ptr<Channel> connect_to(const MeetingPlace& place, int milliseconds);

}  // namespace heddle::comm_detail
