// Requests to a running server. The caller's key needs the role `admin` in the server's comm.allowed; a
// process of the same user on the server's host needs none.
#pragma once

#include <chrono>
#include <string>

namespace heddle {

struct AdministrationOptions {
  std::string server;             // HOST:PORT at which the server accepts workers
  std::string transport = "net";  // the server's transport: "net" or "zmq"
  std::string keys{};             // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  bool encrypt_loopback = false;  // must equal ServerOptions::encrypt_loopback of the server
  std::chrono::milliseconds timeout{5000};
};

// The functions ask_server_...() block. They throw StoreError if the server refuses or does not answer within
// the timeout, CommError if a key is needed and missing, and InvalidArgument for a malformed address.

// Returns what ServerOptions::status of the server makes of its statistics: for `heddle server`, its metrics.
std::string ask_server_status(const AdministrationOptions& options);
// Calls Server::drain() in the server's process. Returns when the server has begun to drain.
void ask_server_to_drain(const AdministrationOptions& options);

}  // namespace heddle
