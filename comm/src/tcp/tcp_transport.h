// The transport over TCP: a full mesh of connections. The calling thread sends and receives itself, because handing a
// message to another thread would cost more than the message.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "bootstrap/rendezvous.h"
#include "bootstrap/security.h"
#include "bootstrap/survivors.h"
#include "core/transport.h"
#include "tcp/fault_state.h"

namespace heddle::comm_detail {

struct Mesh;
// Collective: replaces the data connections of a mesh by others.
using ConnectData = std::function<void(Rendezvous&, Mesh&)>;

struct TcpOptions {
  std::string address = "127.0.0.1";  // address to listen on: numeric, one that the other ranks can reach
  // Ports to listen on, such as "5000-5100"; empty: those of HEDDLE_COMM_PORTS, or any if it is not set.
  std::string ports{};
  // A name for this rank's host. In jobs of several hosts, ranks on one host share memory if they have the
  // same name; see neighbours.h.
  std::string host{};
  std::chrono::milliseconds timeout{10000};
  // How long a transfer spins before it sleeps: waking a thread takes longer than a small message.
  std::chrono::microseconds spin{50};
  Security security{};
  std::string name = "tcp";
  ConnectData connect_data{};  // null: data connections are sockets, or shared memory as `host` says
};

class MeshTransport : public Transport {
 public:
  virtual int ranks_here() const = 0;  // number of ranks on this rank's host
  // Messages over the control connections, which outlive a failure.
  virtual ControlChannel& control_channel() = 0;

  // These four functions serve calls whose data do not use this transport, only its control connections; see
  // FaultState and CallWatch. Any thread.
  virtual FaultState& fault_state() = 0;
  virtual void begin_call(const CallRecord& call) = 0;
  virtual void announce_call(const CallRecord& call) = 0;
  virtual std::uint64_t latest_announced(int rank) = 0;

  // Limits how long the destructor waits for other ranks. Called before the destructor.
  virtual void leave_before(std::chrono::steady_clock::time_point end) noexcept = 0;
};

// Blocks until all ranks of the rendezvous are connected. Throws CommError, and InvalidArgument for invalid
// ports. The transport's destructor sends the leave message and waits until all messages have arrived; it
// takes `timeout` at most.
std::unique_ptr<MeshTransport> make_tcp_transport(Rendezvous& rendezvous, const TcpOptions& options);

}  // namespace heddle::comm_detail
