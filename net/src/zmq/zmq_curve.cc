#include "zmq/zmq_curve.h"

#include <string_view>
#include <utility>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "security/curve_key.h"
#include "security/key_files.h"

namespace heddle::net_detail {
namespace {

constexpr const char* kDomain = "heddle";
constexpr std::size_t kPartsOfAQuestion = 7;  // parts of a ZAP request: version, number, ..., mechanism, key
constexpr std::size_t kKeyBytes = 32;

}  // namespace

bool CurveKeys::allow(const std::string& user) const {
  return user.empty() || allowed.contains(user.substr(std::string_view(kCurveName).size()));
}

std::vector<std::string> CurveKeys::servers() const {
  std::vector<std::string> all;
  for (const std::string& key : allowed) {
    if (key != open && roles_in(roles, kCurveName + key).server) all.push_back(key);
  }
  if (allowed.contains(open) && roles_in(roles, kCurveName + open).server) all.push_back(open);
  if (all.empty()) throw CommError("no key of comm.allowed has the role server");
  return all;
}

CurveKeys curve_keys_in(const net_detail::KeyFiles& files) {
  return {files.curve_secret, net_detail::curve_public_of(files.curve_secret), files.curve_allowed,
          files.roles};
}

CurveKeys read_curve_keys(const std::string& given, const std::string& what) {
  const std::string directory = given.empty() ? comm_keys_directory() : given;
  const auto files = net_detail::read_key_files(directory);
  const bool there = files && !files->curve_secret.empty();
  if (!there)
    throw CommError(what + ", and there is no " + net_detail::curve_file_in(directory) +
                    ": run `heddle keygen" + (files ? " --force" : "") +
                    "` on one host and copy what it makes to the others");
  if (files->curve_allowed.empty())
    throw CommError(what + ", and " + files->allowed_file + " has no curve: key");
  return curve_keys_in(*files);
}

void encrypt_server(ZmqSocket& socket, const CurveKeys& keys) {
  socket.set(ZMQ_CURVE_SERVER, 1);
  socket.set(ZMQ_CURVE_SECRETKEY, keys.secret);
  socket.set(ZMQ_ZAP_DOMAIN, std::string(kDomain));
}

void encrypt_client(ZmqSocket& socket, const CurveKeys& keys, const std::string& server) {
  socket.set(ZMQ_CURVE_SERVERKEY, server);
  socket.set(ZMQ_CURVE_PUBLICKEY, keys.open);
  socket.set(ZMQ_CURVE_SECRETKEY, keys.secret);
}

CurveGuard::CurveGuard(const ZmqContext& context, std::set<std::string> allowed)
    : socket_(context, ZMQ_REP), allowed_(std::move(allowed)) {
  if (zmq_bind(socket_.get(), "inproc://zeromq.zap.01") != 0)
    throw_zmq_error("ZeroMQ cannot ask who is let in");
}

void CurveGuard::answer() {
  while (auto question = socket_.receive()) {
    const bool good = question->size() == kPartsOfAQuestion && (*question)[0].text() == "1.0" &&
                      (*question)[5].text() == "CURVE" && (*question)[6].bytes().size() == kKeyBytes;
    const std::string key = good ? net_detail::curve_key_text((*question)[6].text()) : "";
    const bool accepted = good && allowed_.contains(key);
    const std::string number = question->size() > 1 ? (*question)[1].text() : "";
    const std::string user = accepted ? kCurveName + key : "";
    std::vector<ZmqPart> parts;
    for (const std::string& part :
         {std::string("1.0"), number, std::string(accepted ? "200" : "400"),
          std::string(accepted ? "OK" : "the key is not on the list"), user, std::string()})
      parts.emplace_back(std::as_bytes(std::span(part)));
    socket_.send(parts);
  }
}

}  // namespace heddle::net_detail
