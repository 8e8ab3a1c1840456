#include "device/nccl_backend.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>

#include "bootstrap/host_id.h"
#include "device/stream_calls.h"

namespace heddle::comm_detail {
namespace {

// How long NCCL may take to connect ranks that are known to be there and alive.
constexpr std::chrono::seconds kToConnect{60};
constexpr std::chrono::milliseconds kNap{1};

std::atomic<DeviceLibrary*> replacement{nullptr};

class NcclBackend final : public TcpBackend {
 public:
  NcclBackend(TcpParts parts, const BackendOptions& options) : TcpBackend(std::move(parts), options) {}

  std::string name() const override { return "nccl"; }
  StreamCalls* stream_calls() override { return calls_.get(); }

  // Whoever fails tells the others, which wait here for it, over the control connections.
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
        std::this_thread::sleep_for(kNap);
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

// What a rank says of itself: a device's place on its host, or why it has none.
struct PeerInfo {
  std::string host{}, place{}, problem{};
  std::string text() const { return host + "\n" + place + "\n" + problem; }
  static PeerInfo from(const std::string& text) {
    PeerInfo card;
    std::istringstream lines(text);
    std::getline(lines, card.host);
    std::getline(lines, card.place);
    std::getline(lines, card.problem);
    return card;
  }
};

// As many ranks as there are on this host before this one.
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

// All ranks find the same wrong, before any of them waits for one that does not join.
void check_cards(const std::vector<std::string>& texts) {
  std::vector<PeerInfo> cards;
  for (const std::string& text : texts) {
    const std::string rank = "rank " + std::to_string(cards.size());
    const PeerInfo card = PeerInfo::from(text);
    if (!card.problem.empty())
      throw CommError("the nccl back end needs a GPU for each rank; " + rank + ": " + card.problem);
    for (std::size_t other = 0; other < cards.size(); ++other) {
      if (cards[other].host != card.host || cards[other].place != card.place) continue;
      throw CommError("the nccl back end needs a GPU for each rank; rank " + std::to_string(other) + " and " +
                      rank + " have the same one, " + card.place);
    }
    cards.push_back(card);
  }
}

// The device's index; throws what is wrong with any of the ranks.
int agree_on_devices(Rendezvous& rendezvous, DeviceLibrary* library, int wanted) {
  PeerInfo card{network_world()};
  const int local = local_rank(rendezvous, card.host);
  int index = -1;
  try {
    if (!library)
      throw CommError("its build has no NCCL; configure with -DHEDDLE_CUDA=ON where NCCL is installed");
    index = choose_device(*library, wanted, local);
    card.place = library->place_of(library->device(index));
  } catch (const std::exception& error) {
    card.problem = error.what();
  }
  check_cards(rendezvous.all_gather(card.text()));
  return index;
}

}  // namespace

DeviceLibrary* replace_nccl(DeviceLibrary* library) { return replacement.exchange(library); }

DeviceLibrary* device_library() {
  DeviceLibrary* other = replacement.load();
  return other ? other : nccl();
}

std::unique_ptr<Backend> make_nccl_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  DeviceLibrary* library = device_library();
  const int index = agree_on_devices(rendezvous, library, options.gpu);
  const std::string id = rendezvous.all_gather(rendezvous.rank() == 0 ? library->new_id() : "").at(0);
  auto backend = std::make_unique<NcclBackend>(connect_tcp(rendezvous, options), options);
  backend->join(*library, rendezvous, id, index, options.timeout);
  return backend;
}

}  // namespace heddle::comm_detail
