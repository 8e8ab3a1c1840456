// What somebody may ask of a server whose key has the role `admin` there. Within a host a process of the same user needs none.
#pragma once

#include <chrono>
#include <string>

namespace heddle {

struct AdministrationOptions {
  std::string server;             // HOST:PORT where it serves workers
  std::string transport = "net";  // the server's: "net" or "zmq"
  std::string keys{};             // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  bool encrypt_loopback = false;  // as the server's
  std::chrono::milliseconds timeout{5000};
};

// All block, and throw StoreError if the server refuses, or does not answer within the timeout; CommError without a key
// where one is needed; InvalidArgument for an address that is none.

// What the server's ServerOptions::status makes of its statistics: of `heddle server`, its metrics.
std::string ask_server_status(const AdministrationOptions& options);
// Server::drain(), from anywhere. Returns when the server has begun to.
void ask_server_to_drain(const AdministrationOptions& options);

}  // namespace heddle
