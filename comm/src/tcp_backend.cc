// The backend of ranks that only have messages: TCP, on one host or several.
#include <mutex>

#include "backend.h"
#include "call_numbers.h"
#include "host_id.h"
#include "interfaces.h"
#include "message_collectives.h"
#include "recorder.h"
#include "tcp_transport.h"
#include "tuning.h"

namespace heddle::detail {
namespace {

class TcpBackend final : public Backend {
 public:
  TcpBackend(std::unique_ptr<MeshTransport> transport, std::uint32_t epoch, const BackendOptions& options,
             const NetworkCost& cost)
      : transport_(std::move(transport)),
        collectives_(*transport_, options.reproducible, true, cost),
        numbers_(transport_->size(), epoch, options.algorithm),
        survivors_(transport_->line(), options.timeout, epoch + 1) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::string name() const override { return "tcp"; }
  void abort(const std::string& why) noexcept override { transport_->abort(why); }
  std::string flight_recorder() const override { return recorder_.to_string(rank()); }

  Survivors& survivors() override { return survivors_; }

  void run(Collective& call) override {
    numbers_.number(call.record);
    const std::size_t entry = recorder_.begin(call.record);
    std::vector<std::byte> unwanted;
    if (call.record.failed) make_room(call, unwanted);
    try {
      collectives_.run(call);
    } catch (const RemoteFailure&) {
      recorder_.end(entry, true);
      throw;
    } catch (const std::exception& error) {
      recorder_.end(entry, true);
      abort("rank " + std::to_string(rank()) + " failed in " + call.record.to_string() + ": " + error.what());
      throw;
    }
    recorder_.end(entry, call.record.failed);
  }

 private:
  // What the others send all the same has to go somewhere.
  void make_room(Collective& call, std::vector<std::byte>& unwanted) const {
    std::size_t most = call.bytes() * static_cast<std::size_t>(size());
    for (const auto* counts : {&call.in_counts, &call.out_counts}) {
      for (std::int64_t count : *counts) most += static_cast<std::size_t>(count) * call.element();
    }
    unwanted.resize(most);
    call.in = call.out = unwanted.data();
  }

  const std::unique_ptr<MeshTransport> transport_;
  MessageCollectives collectives_;
  CallNumbers numbers_;
  Recorder recorder_;
  Survivors survivors_;
};

bool one_host(Rendezvous& rendezvous) {
  const std::vector<std::string> hosts = rendezvous.all_gather(network_world());
  for (const std::string& other : hosts) {
    if (other != hosts[0]) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Backend> make_tcp_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  TcpOptions tcp;
  const NetworkCost cost = agreed_tuning(rendezvous, options.tuning);
  tcp.address = choose_address("", one_host(rendezvous));
  tcp.timeout = options.timeout;
  tcp.security = SecurityPolicy::from_environment().at(
      tcp.address, "rank " + std::to_string(rendezvous.rank()) + " would listen at " + tcp.address);
  return std::make_unique<TcpBackend>(make_tcp_transport(rendezvous, tcp), rendezvous.epoch(), options, cost);
}

}  // namespace heddle::detail
