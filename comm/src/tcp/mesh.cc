#include "tcp/mesh.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <poll.h>
#include <utility>

#include <heddle/comm_error.h>

namespace heddle::comm_detail {
namespace {

using Clock = std::chrono::steady_clock;

// Limits connections from outside that have not sent a hello yet, so that they cannot use up file descriptors.
constexpr std::size_t kMaxUnidentified = 64;
// TCP_USER_TIMEOUT of control connections. A host that acknowledges nothing for this long is lost, even if the timeout
// for silent processes is longer.
constexpr std::chrono::milliseconds kHostLost{2000};
// How often the rendezvous is checked for ranks that have failed there and so will not connect.
constexpr std::chrono::milliseconds kCheckInterval{20};

struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

// A rank's text at the rendezvous is "KEY PROTECTION ADDRESS PORT". Rank 0's key is the job's key. The protection is
// the fingerprint of the rank's TLS key, or Security::kPlain.
Endpoint endpoint_from(const std::string& text, int rank) {
  const auto first = text.find(' ', text.find(' ') + 1), second = text.find(' ', first + 1);
  Endpoint endpoint;
  if (first != text.npos && second != text.npos) {
    endpoint.address = text.substr(first + 1, second - first - 1);
    std::from_chars(text.data() + second + 1, text.data() + text.size(), endpoint.port);
  }
  if (!endpoint.port) throw CommError("rank " + std::to_string(rank) + " sent no address at the rendezvous");
  return endpoint;
}

// A connection on which a hello is still expected. All hellos have the same size, and nothing behind them is read.
struct Pending {
  std::unique_ptr<Connection> connection{};
  // The rank to which this rank connects. -1: the connection was accepted, and may come from any higher rank.
  int expected = -1;
  ConnectionUse use = ConnectionUse::data;
  std::string to_send{};
  std::array<std::byte, kFrameHeader> received{};
  std::size_t filled = 0;
};

class Builder {
 public:
  Builder(Mesh& mesh, Rendezvous& rendezvous, Socket listener, const Security& security,
          Clock::time_point deadline)
      : mesh_(mesh),
        rendezvous_(rendezvous),
        listener_(std::move(listener)),
        security_(security),
        deadline_(deadline) {}

  void connect(int rank, const Endpoint& to) {
    for (ConnectionUse use : {ConnectionUse::data, ConnectionUse::control}) {
      Pending& pending = pending_.emplace_back();
      pending.connection = security_.connect(connect_to(to.address, to.port));
      pending.expected = rank;
      pending.use = use;
      pending.to_send = hello(use);
    }
  }

  void run() {
    while (missing() >= 0) {
      wait();
      accept();
      for (Pending& pending : pending_) progress(pending);
      std::erase_if(pending_, [](const Pending& pending) { return !pending.connection; });
    }
  }

 private:
  std::string hello(ConnectionUse use) const {
    return encode({FrameKind::hello, mesh_.epoch, mesh_.rank, 0, use}, mesh_.key);
  }

  // The first rank that is not connected; -1: none.
  int missing() const {
    for (int rank = 0; rank < static_cast<int>(mesh_.links.size()); ++rank) {
      const Link& link = mesh_.links[static_cast<std::size_t>(rank)];
      if (rank != mesh_.rank && (!link.data || !link.control)) return rank;
    }
    return -1;
  }

  void wait() {
    std::vector<pollfd> polled{{listener_.fd(), POLLIN, 0}};
    for (const Pending& pending : pending_) {
      const bool sends = !pending.to_send.empty();
      if (const auto ready = pending.connection->before_sleep(sends, !sends)) polled.push_back(*ready);
    }
    if (polled.size() <= pending_.size()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) {
      throw CommError("rank " + std::to_string(missing()) + " has not connected to rank " +
                      std::to_string(mesh_.rank) + " in time" + refused_);
    }
    poll(polled.data(), polled.size(),
         static_cast<int>(std::min<std::int64_t>(left, kCheckInterval.count())));
    rendezvous_.check();
  }

  void accept() {
    const std::size_t most = 2 * mesh_.links.size() + kMaxUnidentified;
    while (Socket socket = accept_from(listener_)) {
      if (pending_.size() >= most) drop_oldest_unidentified();
      pending_.emplace_back().connection = security_.accept(std::move(socket));
    }
    check_descriptors();
  }

  void drop_oldest_unidentified() {
    const auto accepted = [](const Pending& pending) { return pending.expected < 0; };
    const auto oldest = std::find_if(pending_.begin(), pending_.end(), accepted);
    if (oldest != pending_.end()) pending_.erase(oldest);
  }

  void progress(Pending& pending) {
    if (!send(pending) || !receive(pending)) return refuse(pending);
    if (pending.filled < pending.received.size()) return;
    const Decoded decoded = decode(pending.received, mesh_.key);
    if (decoded.outcome != Decoded::Outcome::frame || !accept_hello(pending, decoded.frame)) refuse(pending);
  }

  // Sends what is left of the hello. False: the connection has been closed.
  static bool send(Pending& pending) {
    if (pending.to_send.empty()) return true;
    const Step step = pending.connection->send(std::as_bytes(std::span(pending.to_send)), {});
    if (step.outcome == Step::Outcome::moved) pending.to_send.erase(0, step.bytes);
    return step.outcome != Step::Outcome::closed;
  }

  static bool receive(Pending& pending) {
    if (!pending.to_send.empty()) return true;
    const auto room = std::span(pending.received).subspan(pending.filled);
    const Step step = pending.connection->receive(room, {});
    if (step.outcome == Step::Outcome::moved) pending.filled += step.bytes;
    return step.outcome != Step::Outcome::closed;
  }

  // Takes the connection for the rank that its hello names. False: the frame is no hello of a rank that still
  // has to connect.
  bool accept_hello(Pending& pending, const ControlFrame& frame) {
    if (frame.kind != FrameKind::hello || frame.epoch != mesh_.epoch || frame.number != 0) return false;
    const bool accepted = pending.expected < 0;
    const bool wanted = accepted
                            ? frame.rank > mesh_.rank && frame.rank < static_cast<int>(mesh_.links.size())
                            : frame.rank == pending.expected && frame.use == pending.use;
    if (!wanted) return false;
    Link& link = mesh_.links[static_cast<std::size_t>(frame.rank)];
    std::unique_ptr<Connection>& place = frame.use == ConnectionUse::data ? link.data : link.control;
    if (place) return false;
    if (accepted && !answer(pending, frame.use)) return false;
    place = std::move(pending.connection);
    return true;
  }

  // Sends this rank's hello on an accepted connection, in one step: a hello fits into the empty buffer of a
  // new connection.
  bool answer(const Pending& pending, ConnectionUse use) const {
    const std::string text = hello(use);
    return pending.connection->send(std::as_bytes(std::span(text)), {}).bytes == text.size();
  }

  void refuse(Pending& pending) {
    const std::string handshake_error = pending.connection->handshake_error();
    if (pending.expected >= 0) {
      throw CommError("rank " + std::to_string(pending.expected) + " cannot be reached from rank " +
                      std::to_string(mesh_.rank) + " at the address it gave at the rendezvous" +
                      (handshake_error.empty() ? "" : ": " + handshake_error));
    }
    if (!handshake_error.empty()) refused_ = "; one has connected and was refused: " + handshake_error;
    pending.connection.reset();
  }

  Mesh& mesh_;
  Rendezvous& rendezvous_;
  Socket listener_;
  const Security& security_;
  const Clock::time_point deadline_;
  std::vector<Pending> pending_;
  std::string refused_;  // why the last connection was refused
};

std::string protection_in(const std::string& text) {
  const auto before = text.find(' ');
  return text.substr(before + 1, text.find(' ', before + 1) - before - 1);
}

// Why this rank does not accept the protection of another rank (see endpoint_from); empty: it accepts that of
// all ranks.
std::string objection(int rank, const std::vector<std::string>& all, const Security& security) {
  for (int other = 0; other < static_cast<int>(all.size()); ++other) {
    const std::string why = security.reason_against(protection_in(all[static_cast<std::size_t>(other)]));
    if (!why.empty()) {
      return "rank " + std::to_string(rank) + " does not accept rank " + std::to_string(other) + ": " + why;
    }
  }
  return "";
}

// Throws the same error on all ranks, before any of them waits for a connection that will not come.
void agree_on_protection(Rendezvous& rendezvous, const std::vector<std::string>& all,
                         const Security& security) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const bool first = protection_in(all[0]) == Security::kPlain,
               other = protection_in(all[rank]) == Security::kPlain;
    if (first == other) continue;
    throw CommError(
        "rank " + std::to_string(rank) + (other ? " does not encrypt" : " encrypts") + " and rank 0 " +
        (first ? "does not" : "does") +
        ": HEDDLE_COMM_ENCRYPT, HEDDLE_COMM_INSECURE and HEDDLE_COMM_INTERFACE must be alike on all");
  }
  if (!security.encrypts()) return;
  for (const std::string& why : rendezvous.all_gather(objection(rendezvous.rank(), all, security))) {
    if (!why.empty()) throw CommError(why);
  }
}

unsigned host_lost_after(std::chrono::milliseconds timeout) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(timeout.count(), 1, kHostLost.count()));
}

}  // namespace

Mesh make_mesh(Rendezvous& rendezvous, const std::string& address, PortRange ports,
               std::chrono::milliseconds timeout, const Security& security) {
  Mesh mesh{rendezvous.rank(), rendezvous.epoch()};
  mesh.links.resize(static_cast<std::size_t>(rendezvous.size()));
  Socket listener = listen_on(address, ports, 2 * rendezvous.size() + static_cast<int>(kMaxUnidentified));
  const std::string mine = to_text(random_key()) + " " + security.own_key() + " " + address + " " +
                           std::to_string(port_of(listener));
  const std::vector<std::string> all = rendezvous.all_gather(mine);
  mesh.key = key_from(all.at(0).substr(0, all[0].find(' ')));
  agree_on_protection(rendezvous, all, security);
  Builder builder(mesh, rendezvous, std::move(listener), security, Clock::now() + timeout);
  for (int rank = 0; rank < mesh.rank; ++rank) {
    builder.connect(rank, endpoint_from(all[static_cast<std::size_t>(rank)], rank));
  }
  builder.run();
  for (const Link& link : mesh.links) {
    if (link.data) tune_for_data(link.data->socket());
    if (link.control) tune_for_control(link.control->socket(), host_lost_after(timeout));
  }
  return mesh;
}

}  // namespace heddle::comm_detail
