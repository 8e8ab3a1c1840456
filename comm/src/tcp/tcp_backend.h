// The back ends of ranks that communicate by messages: tcp, on one host or several, and mpi. nccl derives from it.
#pragma once

#include <heddle/cost_model.h>

#include "algorithms/message_collectives.h"
#include "core/backend.h"
#include "core/call_numbers.h"
#include "core/recorder.h"
#include "tcp/tcp_transport.h"

namespace heddle::comm_detail {

struct TcpParts {
  std::unique_ptr<MeshTransport> transport;
  std::uint32_t epoch;
  NetworkCost cost;
};
// Blocks until all ranks are connected. Sets the address, timeout and security of `tcp`. Data connections of
// another kind, which `tcp.connect_data` makes, are not encrypted.
TcpParts connect_tcp(Rendezvous& rendezvous, const BackendOptions& options, TcpOptions tcp = {});

class TcpBackend : public Backend {
 public:
  TcpBackend(TcpParts parts, const BackendOptions& options);

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  int ranks_here() const override { return transport_->ranks_here(); }
  std::string name() const override { return transport_->name(); }
  void abort(const std::string& why) noexcept override { transport_->abort(why); }
  void leave_before(std::chrono::steady_clock::time_point end) noexcept override {
    transport_->leave_before(end);
  }
  std::string flight_recorder() const override { return recorder_.to_string(rank()); }
  Survivors& survivors() override { return survivors_; }
  void run(Collective& call) override;
  bool may_fuse(const Collective& call) const override { return collectives_.may_fuse(call, algorithm_); }

 protected:
  MeshTransport& transport() { return *transport_; }
  CallNumbers& numbers() { return numbers_; }
  Recorder& recorder() { return recorder_; }

 private:
  using Entries = std::vector<std::size_t>;
  Entries record(Collective& call);
  void end(const Entries& entries, bool failed);
  void make_room(Collective& call, std::vector<std::byte>& scratch) const;

  const std::unique_ptr<MeshTransport> transport_;
  MessageCollectives collectives_;
  CallNumbers numbers_;
  const Algorithm algorithm_;
  Recorder recorder_;
  Survivors survivors_;
};

}  // namespace heddle::comm_detail
