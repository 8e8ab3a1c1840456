// CURVE, the encryption and authentication of ZeroMQ, with the keys of comm.allowed.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "security/key_files.h"
#include "transport/key_list.h"
#include "zmq/zmq_socket.h"

namespace heddle::net_detail {

constexpr const char* kCurveName = "curve:";

// Keys of CURVE, in Z85.
struct CurveKeys {
  std::string secret, open;  // this host's pair; `open` is the public key
  std::set<std::string> allowed;
  KeyList roles;
  // Whether a User-Id is "curve:" and an allowed key, or is empty, as for connections that need no key.
  bool allow(const std::string& user) const;
  // The keys with the role server, this host's own last. Throws CommError if there is none.
  std::vector<std::string> servers() const;
};

CurveKeys curve_keys_in(const net_detail::KeyFiles& files);
// Reads the keys in a directory; empty: comm_keys_directory(). If there are no keys, throws CommError with a
// text that begins with `what`.
CurveKeys read_curve_keys(const std::string& directory, const std::string& what);

// encrypt_server() or encrypt_client() is called before the socket listens or connects. A server without a
// CurveGuard accepts every key.
void encrypt_server(ZmqSocket& socket, const CurveKeys& keys);
void encrypt_client(ZmqSocket& socket, const CurveKeys& keys, const std::string& server);

// Answers ZeroMQ's authentication requests (ZAP, its RFC 27): allowed keys are accepted. Messages of such a
// connection have the User-Id "curve:" and the key.
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

}  // namespace heddle::net_detail
