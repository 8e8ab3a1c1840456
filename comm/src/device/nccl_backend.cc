#include "device/nccl_backend.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <thread>
#include <unistd.h>

#include "bootstrap/host_id.h"
#include "core/backend_table.h"
#include "device/stream_calls.h"

namespace heddle::comm_detail {
namespace {

// How long NCCL may take to connect ranks that are known to be alive.
constexpr std::chrono::seconds kToConnect{60};
constexpr std::chrono::milliseconds kInitPollInterval{1};

std::atomic<DeviceLibrary*> replacement{nullptr};

class NcclBackend final : public TcpBackend {
 public:
  NcclBackend(TcpParts parts, const BackendOptions& options) : TcpBackend(std::move(parts), options) {}

  std::string name() const override { return "nccl"; }
  StreamCalls* stream_calls() override { return calls_.get(); }

  // A rank that fails aborts the communicator, so that the ranks that wait here for it fail too.
  void join(DeviceLibrary& library, Rendezvous& rendezvous, const std::string& id, int index,
            std::chrono::milliseconds timeout) {
    try {
      const Device device = library.device(index);
      auto ranks = library.join(id, rank(), size(), device);
      const auto deadline =
          std::chrono::steady_clock::now() + std::max<std::chrono::milliseconds>(timeout, kToConnect);
      while (ranks->busy()) {
        if (transport().fault_state().failed()) transport().fault_state().raise();
        rendezvous.check();
        if (std::chrono::steady_clock::now() > deadline)
          throw CommError("NCCL has not connected the ranks in time");
        std::this_thread::sleep_for(kInitPollInterval);
      }
      calls_ = std::make_unique<StreamCalls>(transport(), numbers(), recorder(), std::move(ranks), device,
                                             index, timeout);
    } catch (const std::exception& error) {
      abort("it could not join the communicator: " + std::string(error.what()));
      throw;
    }
  }

 private:
  std::unique_ptr<StreamCalls> calls_;
};

// What a rank sends to the others: its process, which device of its host it has (place_of), or why it has none.
struct PeerInfo {
  std::string host{}, process{}, place{}, problem{};
  std::string text() const { return host + "\n" + process + "\n" + place + "\n" + problem; }
  static PeerInfo from(const std::string& text) {
    PeerInfo info;
    std::istringstream lines(text);
    std::getline(lines, info.host);
    std::getline(lines, info.process);
    std::getline(lines, info.place);
    std::getline(lines, info.problem);
    return info;
  }
};

// The number of lower ranks on this host.
int local_rank(Rendezvous& rendezvous, const std::string& host) {
  const std::vector<std::string> hosts = rendezvous.all_gather(host);
  int before = 0;
  for (int rank = 0; rank < rendezvous.rank(); ++rank)
    before += hosts[static_cast<std::size_t>(rank)] == host;
  return before;
}

int choose_device(DeviceLibrary& library, int wanted, int local) {
  const int devices = library.devices();
  if (devices == 0) throw CommError("it has no GPU");
  if (wanted < devices) return wanted >= 0 ? wanted : local % devices;
  throw CommError("it is to use gpu(" + std::to_string(wanted) + ") and has " + std::to_string(devices));
}

// Between ranks of one process NCCL's kernels use the memory of another rank's array directly, which GPUs cannot do with memory of a
// pool. Takes effect before the process's first call of NCCL alone.
void forbid_direct_access() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0); });
}

// Throws the same error on all ranks, before any of them waits for a rank that will not join.
void check_peers(const std::vector<std::string>& texts) {
  std::vector<PeerInfo> peers;
  for (const std::string& text : texts) {
    const std::string rank = "rank " + std::to_string(peers.size());
    const PeerInfo info = PeerInfo::from(text);
    if (!info.problem.empty())
      throw CommError("the nccl back end needs a GPU for each rank; " + rank + ": " + info.problem);
    for (std::size_t other = 0; other < peers.size(); ++other) {
      if (peers[other].host != info.host) continue;
      if (peers[other].process == info.process) forbid_direct_access();
      if (peers[other].place != info.place) continue;
      throw CommError("the nccl back end needs a GPU for each rank; rank " + std::to_string(other) + " and " +
                      rank + " have the same one, " + info.place);
    }
    peers.push_back(info);
  }
}

// Returns the index of this rank's device. Throws the same CommError on all ranks if one of them has none.
int agree_on_devices(Rendezvous& rendezvous, DeviceLibrary* library, int wanted) {
  PeerInfo info{network_domain(), std::to_string(getpid())};
  const int local = local_rank(rendezvous, info.host);
  int index = -1;
  try {
    if (!library) throw CommError(nccl_missing());
    index = choose_device(*library, wanted, local);
    info.place = library->place_of(library->device(index));
  } catch (const std::exception& error) {
    info.problem = error.what();
  }
  check_peers(rendezvous.all_gather(info.text()));
  return index;
}

}  // namespace

DeviceLibrary* replace_nccl(DeviceLibrary* library) { return replacement.exchange(library); }

DeviceLibrary* device_library() {
  DeviceLibrary* other = replacement.load();
  return other ? other : nccl();
}

namespace {

// Collective; blocks until all ranks take part. Throws CommError on all of them if one has no device of its own.
std::unique_ptr<Backend> make_nccl_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  DeviceLibrary* library = device_library();
  const int index = agree_on_devices(rendezvous, library, options.gpu);
  const std::string id = rendezvous.all_gather(rendezvous.rank() == 0 ? library->new_id() : "").at(0);
  auto backend = std::make_unique<NcclBackend>(connect_tcp(rendezvous, options), options);
  backend->join(*library, rendezvous, id, index, options.timeout);
  return backend;
}

}  // namespace

HEDDLE_BACKENDS(nccl) { table.add({.name = "nccl", .make = make_nccl_backend}); }

}  // namespace heddle::comm_detail
