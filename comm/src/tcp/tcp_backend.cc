#include "tcp/tcp_backend.h"

#include "algorithms/tuning.h"
#include "bootstrap/host_id.h"
#include "connection/interfaces.h"
#include "core/backend_table.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

bool one_host(Rendezvous& rendezvous) {
  const std::vector<std::string> hosts = rendezvous.all_gather(network_domain());
  for (const std::string& other : hosts) {
    if (other != hosts[0]) return false;
  }
  return true;
}

std::unique_ptr<Backend> make_tcp_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  return std::make_unique<TcpBackend>(connect_tcp(rendezvous, options), options);
}

}  // namespace

TcpParts connect_tcp(Rendezvous& rendezvous, const BackendOptions& options, TcpOptions tcp) {
  const NetworkCost cost = agreed_tuning(rendezvous, options.tuning);
  tcp.address = choose_address("", one_host(rendezvous));
  tcp.timeout = options.timeout;
  tcp.security = SecurityPolicy::from_environment().at(
      tcp.address, "rank " + std::to_string(rendezvous.rank()) + " would listen at " + tcp.address);
  if (tcp.connect_data && tcp.security.encrypts()) {
    throw InvalidArgument(
        "the communication backend '" + tcp.name +
        "' does not encrypt what leaves the host: HEDDLE_COMM_INSECURE=1 says that the network is "
        "trusted; 'tcp' encrypts");
  }
  return {make_tcp_transport(rendezvous, tcp), rendezvous.epoch(), cost};
}

TcpBackend::TcpBackend(TcpParts parts, const BackendOptions& options)
    : transport_(std::move(parts.transport)),
      collectives_(*transport_, options.reproducible, true, parts.cost),
      numbers_(transport_->size(), parts.epoch, options.algorithm),
      algorithm_(options.algorithm),
      survivors_(transport_->control_channel(), options.timeout, parts.epoch + 1) {}

void TcpBackend::run(Collective& call) {
  numbers_.number(call);
  const Entries entries = record(call);
  std::vector<std::byte> scratch;
  if (call.record.failed) make_room(call, scratch);
  try {
    collectives_.run(call);
  } catch (const RemoteFailure&) {
    end(entries, true);
    throw;
  } catch (const std::exception& error) {
    end(entries, true);
    abort("rank " + std::to_string(rank()) + " failed in " + call.record.to_string() + ": " + error.what());
    throw;
  }
  end(entries, call.record.failed);
}

TcpBackend::Entries TcpBackend::record(Collective& call) {
  if (call.members.empty()) return {recorder_.begin(call.record)};
  Entries entries;
  for (CallRecord& member : call.members) entries.push_back(recorder_.begin(member));
  return entries;
}

void TcpBackend::end(const Entries& entries, bool failed) {
  for (const std::size_t entry : entries) recorder_.end(entry, failed);
}

// Provides room for the data that the other ranks send nevertheless, after this rank's op has failed.
void TcpBackend::make_room(Collective& call, std::vector<std::byte>& scratch) const {
  std::size_t most = call.bytes() * static_cast<std::size_t>(size());
  for (const auto* counts : {&call.in_counts, &call.out_counts}) {
    for (std::int64_t count : *counts) most += static_cast<std::size_t>(count) * call.element();
  }
  scratch.resize(most);
  call.in = call.out = scratch.data();
}

HEDDLE_BACKENDS(tcp) { table.add({.name = "tcp", .make = make_tcp_backend, .everywhere = true}); }

}  // namespace heddle::comm_detail
