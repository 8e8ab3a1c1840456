// Transport over TCP: a full mesh of connections, served by the calling thread itself, for a thread in between would
// cost more than the message.
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
// Collective: puts others in the place of a mesh's data connections.
using Wires = std::function<void(Rendezvous&, Mesh&)>;

struct TcpOptions {
  std::string address =
      "127.0.0.1";      // of the interface to listen on, which the other ranks can reach; numeric
  std::string ports{};  // "5000-5100"; empty: HEDDLE_COMM_PORTS, or any
  // Ranks with the same one, on the same host, talk through memory if there are several hosts; see neighbours.h.
  std::string host{};
  std::chrono::milliseconds timeout{10000};
  // How long a transfer tries again before it sleeps: waking up costs more than a small message's way. 0 where no core
  // is to spare.
  std::chrono::microseconds spin{50};
  Security security{};  // of the connections
  std::string name = "tcp";
  Wires wires{};  // null: data goes over sockets, or as `host` says
};

class MeshTransport : public Transport {
 public:
  virtual ControlChannel& line() = 0;  // over the control connections, which outlive a failure

  // For calls whose data go another way, from any thread: what the ranks know of each other, that this rank begins a
  // call, that it has been in one for some time, and the latest such call of another rank.
  virtual FaultState& fault_state() = 0;
  virtual void began(const CallRecord& call) = 0;
  virtual void waits_in(const CallRecord& call) = 0;
  virtual std::uint64_t latest_of(int rank) = 0;

  // The destructor waits for others until then at most. Only before it.
  virtual void leave_before(std::chrono::steady_clock::time_point end) noexcept = 0;
};

// Blocks until all ranks of the rendezvous are connected. Throws CommError, InvalidArgument for the ports. Destroying it
// says that this rank leaves, after what it has sent has arrived; waits `timeout` at most.
std::unique_ptr<MeshTransport> make_tcp_transport(Rendezvous& rendezvous, const TcpOptions& options);

}  // namespace heddle::comm_detail
