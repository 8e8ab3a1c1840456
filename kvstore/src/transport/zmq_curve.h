// CURVE, the encryption and authentication of ZeroMQ, with the keys of this user's list.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "net/key_files.h"
#include "transport/key_list.h"
#include "transport/zmq_socket.h"

namespace heddle::kv_detail {

constexpr const char* kCurveName = "curve:";

// In Z85.
struct CurveKeys {
  std::string secret, open;  // this host's; `open` is the public one
  std::set<std::string> allowed;
  KeyList roles;
  // "curve:" and the key, or nothing where none was shown.
  bool allow(const std::string& user) const;
  // The keys that a server may have, this host's own last. Throws CommError if there is none.
  std::vector<std::string> servers() const;
};

CurveKeys curve_keys_in(const comm_detail::KeyFiles& files);
// Of a directory, empty: comm_keys_directory(). Throws CommError if there are none; `what` begins its text.
CurveKeys read_curve_keys(const std::string& directory, const std::string& what);

// Before the socket listens or connects. A server needs a guard first: without one ZeroMQ lets everybody in.
void encrypt_server(ZmqSocket& socket, const CurveKeys& keys);
void encrypt_client(ZmqSocket& socket, const CurveKeys& keys, const std::string& server);

// Answers ZeroMQ's questions who is let in (its RFC 27, ZAP): the keys of the list. "curve:" and the key is the User-Id of
// what comes over the connection then.
class CurveGuard {
 public:
  CurveGuard(const ZmqContext& context, std::set<std::string> allowed);
  void answer();
  void set_allowed(std::set<std::string> allowed) { allowed_ = std::move(allowed); }
  const ZmqSocket& socket() const { return socket_; }

 private:
  ZmqSocket socket_;
  std::set<std::string> allowed_;
};

}  // namespace heddle::kv_detail
