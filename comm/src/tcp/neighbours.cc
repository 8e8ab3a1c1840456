#include "tcp/neighbours.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unistd.h>

#include <heddle/comm_error.h>

#include "bootstrap/host_id.h"
#include "connection/ring_connection.h"
#include "connection/shared_memory.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

// The ring buffers between two ranks, in memory of the lower one.
struct Pair {
  Ring up, down;  // up: to the higher rank, down: to the lower one
};

std::size_t bytes_of(int rank, int size) { return static_cast<std::size_t>(size - rank - 1) * sizeof(Pair); }

struct PeerInfo {
  int pid = 0, fd = -1;  // fd: file descriptor of the memory that the rank shares; -1: it has none to share
  std::string host{};
  std::string to_string() const { return std::to_string(pid) + " " + std::to_string(fd) + " " + host; }
  static PeerInfo from(const std::string& text) {
    PeerInfo info;
    std::istringstream words(text);
    words >> info.pid >> info.fd >> std::ws;
    std::getline(words, info.host);
    return info;
  }
};

std::vector<int> host_numbers(const std::vector<PeerInfo>& peers) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const PeerInfo& info : peers)
    hosts.push_back(numbers.try_emplace(info.host, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

class Neighbours {
 public:
  Neighbours(Rendezvous& rendezvous, Mesh& mesh) : rendezvous_(rendezvous), mesh_(mesh) {}

  std::vector<int> connect_all(const std::string& name) {
    const int size = rendezvous_.size(), rank = rendezvous_.rank();
    PeerInfo mine{getpid(), -1, name + "/" + memory_domain()};
    if (rank + 1 < size) make_own(mine, bytes_of(rank, size));
    for (const std::string& text : rendezvous_.all_gather(mine.to_string()))
      peers_.push_back(PeerInfo::from(text));
    const std::vector<int> hosts = host_numbers(peers_);
    const auto several = [&](int host) { return std::count(hosts.begin(), hosts.end(), host) > 1; };
    const bool one_host = hosts.back() == 0 && std::count(hosts.begin(), hosts.end(), 0) == size;
    // If all ranks are on one host, the user has asked for tcp instead of shm. The ranks then use sockets.
    if (!one_host && std::any_of(hosts.begin(), hosts.end(), several)) share_memory(hosts);
    return hosts;
  }

 private:
  void make_own(PeerInfo& mine, std::size_t bytes) {
    try {
      file_ = make_memory(bytes);
      own_ = map_memory(file_, bytes);
      mine.fd = file_.fd();
    } catch (const CommError&) {  // without memory to share, the ranks keep their sockets
    }
  }

  // The higher rank of each pair maps the lower one's memory; all ranks gather which mappings have succeeded.
  void share_memory(const std::vector<int>& hosts) {
    const int size = rendezvous_.size(), rank = rendezvous_.rank();
    std::vector<std::shared_ptr<std::byte>> mapped(static_cast<std::size_t>(size));
    std::string done(static_cast<std::size_t>(size), '0');
    for (int lower = 0; lower < rank; ++lower) {
      const auto at = static_cast<std::size_t>(lower);
      if (hosts[at] != hosts[static_cast<std::size_t>(rank)] || peers_[at].fd < 0) continue;
      if ((mapped[at] = map_of(peers_[at], bytes_of(lower, size)))) done[at] = '1';
    }
    const std::vector<std::string> all = rendezvous_.all_gather(done);
    for (int other = 0; other < size; ++other) {
      const int low = std::min(other, rank), high = std::max(other, rank);
      const std::string& theirs = all[static_cast<std::size_t>(high)];
      if (low == high || theirs.size() != all.size() || theirs[static_cast<std::size_t>(low)] != '1')
        continue;
      const auto& memory = low == rank ? own_ : mapped[static_cast<std::size_t>(low)];
      if (!memory)
        throw CommError("rank " + std::to_string(other) +
                        " claims to share memory that this rank does not have");
      replace(other, reinterpret_cast<Pair*>(memory.get())[high - low - 1], memory);
    }
  }

  static std::shared_ptr<std::byte> map_of(const PeerInfo& info, std::size_t bytes) {
    try {
      return map_memory_of(info.pid, info.fd, bytes);
    } catch (const CommError&) {  // the system does not allow the mapping: the two ranks keep their sockets
      return nullptr;
    }
  }

  void replace(int other, Pair& pair, std::shared_ptr<void> memory) {
    auto& data = mesh_.links[static_cast<std::size_t>(other)].data;
    const bool higher = other > mesh_.rank;
    data = ring_connection(std::move(data), higher ? pair.up : pair.down, higher ? pair.down : pair.up,
                           std::move(memory));
  }

  Rendezvous& rendezvous_;
  Mesh& mesh_;
  std::vector<PeerInfo> peers_;
  Socket file_;
  std::shared_ptr<std::byte> own_;
};

}  // namespace

std::vector<int> connect_neighbours(Rendezvous& rendezvous, Mesh& mesh, const std::string& name) {
  return Neighbours(rendezvous, mesh).connect_all(name);
}

}  // namespace heddle::comm_detail
