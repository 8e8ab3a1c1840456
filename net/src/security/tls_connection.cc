#include "security/tls_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <span>
#include <sys/socket.h>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {

class TlsContext {
 public:
  explicit TlsContext(const KeyFiles& files)
      : allowed_file(files.allowed_file),
        own_key(fingerprint_of(files.key.get())),
        allowed(files.allowed),
        ssl(SSL_CTX_new(TLS_method()), SSL_CTX_free) {}

  const std::string allowed_file, own_key;
  const std::set<std::string> allowed;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> ssl;
};

namespace {

constexpr std::size_t kRecord = 16384;  // bytes of the largest record of TLS
// The most bytes of one step, so that sending and receiving alternate.
constexpr std::size_t kMaxAtOnce = 512 * 1024;
// Bytes that are read from the socket at once: one call for several records, instead of two calls for each.
constexpr std::size_t kReadAhead = 64 * 1024;
constexpr std::string_view kProtocol = "heddle/1";

// The state of a BIO through which OpenSSL uses the socket. OpenSSL's socket BIO would raise SIGPIPE, and its
// read-ahead moves the buffered bytes to the front of the buffer for each record.
struct SocketBio {
  int fd = -1;
  bool broken = false;
  std::vector<char> in{};
  std::size_t taken = 0, filled = 0;  // bytes of `in` that are consumed, and filled
};

SocketBio& state_of(BIO* bio) { return *static_cast<SocketBio*>(BIO_get_data(bio)); }

bool would_block() { return errno == EAGAIN || errno == EINTR || errno == ENOTCONN; }

// A broken socket is reported as a full one: otherwise OpenSSL would stop reading, and an alert that explains the end
// would be lost.
int bio_write(BIO* bio, const char* data, int size) {
  SocketBio& state = state_of(bio);
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      state.broken ? -1 : send(state.fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) return static_cast<int>(sent);
  state.broken = state.broken || !would_block();
  BIO_set_retry_write(bio);
  return -1;
}

int bio_read(BIO* bio, char* data, int size) {
  SocketBio& state = state_of(bio);
  BIO_clear_retry_flags(bio);
  if (state.taken == state.filled) {
    const ssize_t got = recv(state.fd, state.in.data(), state.in.size(), MSG_DONTWAIT);
    if (got < 0 && would_block()) BIO_set_retry_read(bio);
    if (got <= 0) return static_cast<int>(got);
    state.taken = 0;
    state.filled = static_cast<std::size_t>(got);
  }
  const std::size_t count = std::min(static_cast<std::size_t>(size), state.filled - state.taken);
  std::memcpy(data, state.in.data() + state.taken, count);
  state.taken += count;
  return static_cast<int>(count);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "heddle socket");
    if (!made) throw CommError("there is no memory for TLS");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

// Whether the alert means that the peer refuses this rank's key.
bool refuses_key(int alert) {
  return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED || alert == SSL_AD_CERTIFICATE_REQUIRED;
}

class TlsConnection final : public Connection {
 public:
  TlsConnection(Socket socket, std::shared_ptr<const TlsContext> context, TlsSide side,
                const TlsLimits& limits)
      : socket_(std::move(socket)),
        context_(std::move(context)),
        limits_(limits),
        bio_{.fd = socket_.fd(), .in = std::vector<char>(kReadAhead)},
        ssl_(SSL_new(context_->ssl.get()), SSL_free) {
    BIO* bio = BIO_new(bio_method());
    if (!ssl_ || !bio) throw CommError("there is no memory for TLS");
    BIO_set_data(bio, &bio_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_app_data(ssl_.get(), this);
    side == TlsSide::client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }

  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  Step receive(std::span<std::byte> head, std::span<std::byte> body) override;
  std::optional<pollfd> before_sleep(bool to_send, bool to_receive) override;
  const Socket& socket() const override { return socket_; }
  std::string handshake_error() const override { return handshake_error_; }
  std::string peer_key() const override { return established() ? shown_key_ : ""; }
  void finish_sending() override;
  bool all_delivered() override;

  // Whether the key in the other side's certificate is on the list.
  bool accepts(X509* certificate);

 private:
  bool established() const { return SSL_is_init_finished(ssl_.get()); }
  std::span<const std::byte> first_record(std::span<const std::byte> head, std::span<const std::byte> body);
  bool write(std::span<const std::byte> piece, std::size_t& written);
  bool read(std::span<std::byte> room, std::size_t& got);
  void note(int result, short& wanted);
  void note_handshake_error();
  void read_alert();
  void change_key();
  Step result(std::size_t bytes) const;

  const Socket socket_;
  const std::shared_ptr<const TlsContext> context_;
  const TlsLimits limits_;
  SocketBio bio_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  short send_wants_ = POLLOUT, receive_wants_ = POLLIN;
  bool drained_ = false;    // whether no complete record is left in the buffers
  bool half_sent_ = false;  // whether the kernel has taken only a part of a record
  bool ended_ = false;      // whether the other side has ended its stream
  bool dead_ = false;       // whether OpenSSL must not be called any more
  bool finishing_ = false, finished_ = false;
  std::uint64_t under_this_key_ = 0;
  std::string shown_key_, handshake_error_;
  std::vector<std::byte> record_;
};

int verify(X509_STORE_CTX* store, void*) {
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& connection = *static_cast<TlsConnection*>(SSL_get_app_data(ssl));
  X509* certificate = X509_STORE_CTX_get0_cert(store);
  if (certificate && connection.accepts(certificate)) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
  return 0;
}

bool TlsConnection::accepts(X509* certificate) {
  EVP_PKEY* key = X509_get0_pubkey(certificate);
  try {
    shown_key_ = key ? fingerprint_of(key) : "";
  } catch (const CommError&) {
    shown_key_.clear();
  }
  return context_->allowed.contains(shown_key_);
}

// Joins the head and the beginning of the body, because a second record would cost more than the copy.
std::span<const std::byte> TlsConnection::first_record(std::span<const std::byte> head,
                                                       std::span<const std::byte> body) {
  if (head.empty()) return body.first(std::min(body.size(), kRecord));
  if (body.empty()) return head.first(std::min(head.size(), kRecord));
  const std::size_t of_head = std::min(head.size(), kRecord);
  const std::size_t of_body = std::min(body.size(), kRecord - of_head);
  record_.resize(kRecord);
  std::memcpy(record_.data(), head.data(), of_head);
  std::memcpy(record_.data() + of_head, body.data(), of_body);
  return std::span(record_).first(of_head + of_body);
}

Step TlsConnection::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  std::size_t total = 0;
  while (!dead_ && !bio_.broken && total < kMaxAtOnce && head.size() + body.size() > 0) {
    std::size_t written = 0;
    if (!write(first_record(head, body), written)) break;
    total += written;
    const std::size_t of_head = std::min(written, head.size());
    head = head.subspan(of_head);
    body = body.subspan(written - of_head);
  }
  if (bio_.broken && total == 0) {
    read_alert();
    return {Step::Outcome::closed, 0};
  }
  return result(total);
}

bool TlsConnection::write(std::span<const std::byte> piece, std::size_t& written) {
  const bool before = established();
  change_key();
  ERR_clear_error();
  const int done = SSL_write_ex(ssl_.get(), piece.data(), piece.size(), &written);
  if (!before) drained_ = false;  // data may have arrived with the handshake
  half_sent_ = done <= 0 && established();
  if (done <= 0) return note(done, send_wants_), false;
  under_this_key_ += written;
  send_wants_ = POLLOUT;
  return true;
}

Step TlsConnection::receive(std::span<std::byte> head, std::span<std::byte> body) {
  std::size_t total = 0;
  for (std::span<std::byte> room : {head, body}) {
    while (!dead_ && !ended_ && !room.empty() && total < kMaxAtOnce) {
      std::size_t got = 0;
      if (!read(room, got)) return ended_ && total == 0 ? Step{Step::Outcome::closed, 0} : result(total);
      total += got;
      room = room.subspan(got);
    }
  }
  return ended_ && total == 0 ? Step{Step::Outcome::closed, 0} : result(total);
}

bool TlsConnection::read(std::span<std::byte> room, std::size_t& got) {
  ERR_clear_error();
  drained_ = false;
  const int done = SSL_read_ex(ssl_.get(), room.data(), room.size(), &got);
  if (done > 0) return true;
  note(done, receive_wants_);
  drained_ = true;
  return false;
}

Step TlsConnection::result(std::size_t bytes) const {
  if (bytes > 0) return {Step::Outcome::moved, bytes};
  return {dead_ ? Step::Outcome::closed : Step::Outcome::would_block, 0};
}

void TlsConnection::note(int result, short& wanted) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      wanted = POLLIN;
      return;
    case SSL_ERROR_WANT_WRITE:
      wanted = POLLOUT;
      return;
    case SSL_ERROR_ZERO_RETURN:
      ended_ = true;
      return;
    default:
      note_handshake_error();
      dead_ = true;
  }
}

// Explains errors of the handshake. Later errors are an ordinary end of the connection.
void TlsConnection::note_handshake_error() {
  const unsigned long error = ERR_peek_error();
  if (error == 0 || ERR_GET_LIB(error) != ERR_LIB_SSL || !handshake_error_.empty()) return;
  const int reason = ERR_GET_REASON(error);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    handshake_error_ = "it shows the key " + shown_key_ + ", which " + context_->allowed_file +
                       " does not have; if it is one of yours, add the line";
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    handshake_error_ = "it shows no key";
  } else if (refuses_key(reason - SSL_AD_REASON_OFFSET)) {
    handshake_error_ = "it does not accept this process's key " + context_->own_key +
                       ": add that line to its comm.allowed, or copy this host's key files to it";
  } else if (!established() && reason < SSL_AD_REASON_OFFSET) {
    handshake_error_ = "it does not encrypt, or not as Heddle does";
  }
  if (established()) return;
  // Everything is read first: closing a socket with unread data would discard the alert that was just sent.
  std::array<std::byte, 4096> unread;
  while (recv(socket_.fd(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
  shutdown(socket_.fd(), SHUT_WR);
}

// Reads the alert that the peer may have sent before it closed the connection. Data are left for receive().
void TlsConnection::read_alert() {
  if (dead_ || ended_) return;
  std::byte unused{};
  std::size_t got = 0;
  ERR_clear_error();
  const int done = SSL_peek_ex(ssl_.get(), &unused, 1, &got);
  if (done <= 0) note(done, receive_wants_);
}

// Changes the key only when the socket has room: OpenSSL does not read while the key update waits for room, and two
// peers that wait so would deadlock.
void TlsConnection::change_key() {
  if (under_this_key_ < limits_.bytes_per_key || half_sent_) return;
  pollfd room{socket_.fd(), POLLOUT, 0};
  if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) return;
  if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) under_this_key_ = 0;
}

std::optional<pollfd> TlsConnection::before_sleep(bool to_send, bool to_receive) {
  const bool more = SSL_has_pending(ssl_.get()) || bio_.taken < bio_.filled;
  if (dead_ || (to_receive && !drained_ && more)) return std::nullopt;
  const int events = (to_send ? send_wants_ : 0) | (to_receive ? receive_wants_ : 0);
  return pollfd{socket_.fd(), static_cast<short>(events), 0};
}

// A partly sent record is followed by no close alert, so that the peer discards the incomplete message.
void TlsConnection::finish_sending() {
  finishing_ = true;
  if (finished_) return;
  if (!dead_ && !bio_.broken && !half_sent_ && established()) {
    ERR_clear_error();
    const int done = SSL_shutdown(ssl_.get());
    if (done < 0 && SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_WRITE && !bio_.broken) return;
  }
  finished_ = true;
  shutdown(socket_.fd(), SHUT_WR);
}

bool TlsConnection::all_delivered() {
  if (finishing_) finish_sending();
  return all_acknowledged(socket_) && finished_ == finishing_;
}

bool configure(SSL_CTX* ssl, const KeyFiles& files) {
  constexpr std::uint64_t kOptions = SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION;
  SSL_CTX_set_options(ssl, kOptions);
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(ssl, verify, nullptr);
  SSL_CTX_set_max_cert_list(ssl, 4096);
  std::string protocol(1, static_cast<char>(kProtocol.size()));
  protocol += kProtocol;
  const auto* wire_format = reinterpret_cast<const unsigned char*>(protocol.data());
  const Certificate certificate = certificate_of(files.key);
  return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") == 1 &&
         SSL_CTX_set1_groups_list(ssl, "X25519") == 1 && SSL_CTX_set1_sigalgs_list(ssl, "ed25519") == 1 &&
         SSL_CTX_set_alpn_protos(ssl, wire_format, static_cast<unsigned>(protocol.size())) == 0 &&
         SSL_CTX_use_certificate(ssl, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(ssl, files.key.get()) == 1;
}

}  // namespace

std::shared_ptr<const TlsContext> make_tls_context(const KeyFiles& files) {
  // Threads of communicators may still use OpenSSL after its atexit handler.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  auto context = std::make_shared<const TlsContext>(files);
  if (!context->ssl || !configure(context->ssl.get(), files))
    throw CommError("OpenSSL cannot do what Heddle needs: " + last_tls_error());
  return context;
}

std::unique_ptr<Connection> tls_connection(Socket socket, std::shared_ptr<const TlsContext> context,
                                           TlsSide side, const TlsLimits& limits) {
  return std::make_unique<TlsConnection>(std::move(socket), std::move(context), side, limits);
}

bool is_tls_hello(const std::string& received) {
  return received.starts_with('\x16') && received.find(kProtocol) != std::string::npos;
}

}  // namespace heddle::net_detail
