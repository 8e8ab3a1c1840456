// The back end 'shm': ranks are processes. Each shares anonymous memory (memfd_create), which the others open through
// /proc. The system allows that to processes of the same user only, and frees the memory however the processes end.
#include <cstring>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#include "bootstrap/host_id.h"
#include "connection/shared_memory.h"
#include "core/backend_table.h"
#include "host/host_backend.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

// Address space for shared arrays; only pages that are used take memory.
constexpr std::size_t kHeap = std::size_t{16} << 30;

[[noreturn]] void fail(const std::string& what) { throw CommError(what + ": " + std::strerror(errno)); }

// Allocates first fit, in whole pages; freed pages are returned to the system.
class Heap {
 public:
  Heap(Socket file, std::shared_ptr<std::byte> memory) : file_(std::move(file)), memory_(std::move(memory)) {
    free_[0] = kHeap;
  }
  std::byte* base() const { return memory_.get(); }

  std::byte* allocate(std::size_t bytes) {
    bytes = rounded(bytes);
    std::lock_guard guard(mutex_);
    for (auto [begin, size] : free_) {
      if (size < bytes) continue;
      free_.erase(begin);
      if (size > bytes) free_[begin + bytes] = size - bytes;
      return base() + begin;
    }
    return nullptr;
  }

  void free(std::byte* block, std::size_t bytes) {
    if (getpid() != process_) return;  // this is the child of a fork, whose parent still uses the memory
    bytes = rounded(bytes);
    auto begin = static_cast<std::size_t>(block - base());
    fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(bytes));
    std::lock_guard guard(mutex_);
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return;
      }
    }
    free_[begin] = bytes;
  }

 private:
  static std::size_t rounded(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;  // memory is returned to the system in whole pages
    return std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  }
  const Socket file_;
  const int process_ = getpid();
  const std::shared_ptr<std::byte> memory_;
  std::mutex mutex_;  // guards free_; no other mutex is locked while it is held
  std::map<std::size_t, std::size_t> free_;
};

class ProcessMemory final : public HostMemory, public std::enable_shared_from_this<ProcessMemory> {
 public:
  ProcessMemory(int rank, std::shared_ptr<std::byte> segment, std::unique_ptr<Heap> heap,
                std::vector<std::shared_ptr<std::byte>> others)
      : rank_(rank), segment_(std::move(segment)), heap_(std::move(heap)), others_(std::move(others)) {}

  std::byte* segment() const override { return segment_.get(); }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    std::byte* block = heap_->allocate(bytes);
    if (!block) return nullptr;
    return {block,
            [self = shared_from_this(), bytes](std::byte* pointer) { self->heap_->free(pointer, bytes); }};
  }

  std::byte* find(int rank, std::uint64_t address, std::size_t bytes) const override {
    const std::uint64_t offset = address - kLine;
    if (offset > kHeap || bytes > kHeap - offset)
      throw CommError("a rank has published data outside of its memory");
    std::byte* base = rank == rank_ ? heap_->base() : others_[static_cast<std::size_t>(rank)].get();
    return base + offset;
  }

  std::uint64_t shared_address(const std::byte* data, std::size_t bytes) const override {
    const auto begin = reinterpret_cast<std::uintptr_t>(heap_->base()),
               at = reinterpret_cast<std::uintptr_t>(data);
    if (at < begin || at - begin > kHeap || bytes > kHeap - (at - begin)) return 0;
    return at - begin + kLine;
  }

 private:
  const int rank_;
  const std::shared_ptr<std::byte> segment_;
  const std::unique_ptr<Heap> heap_;
  const std::vector<std::shared_ptr<std::byte>> others_;  // the other ranks' heaps, by rank
};

// A pidfd refers to one process, even after its process number is used again.
class ProcessLiveness final : public Liveness {
 public:
  explicit ProcessLiveness(const std::vector<int>& pids) {
    for (int pid : pids) {
      files_.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      if (files_.back().fd() < 0) fail("pidfd_open of rank " + std::to_string(files_.size() - 1));
    }
  }
  bool ended(int rank) const override {
    pollfd asked{files_[static_cast<std::size_t>(rank)].fd(), POLLIN, 0};
    return poll(&asked, 1, 0) > 0;
  }
  bool has_heartbeats() const override { return true; }

 private:
  std::vector<Socket> files_;
};

struct PeerInfo {
  int pid = 0, segment = -1, heap = -1;
  std::string domain{};   // the rank's memory_domain()
  std::string problem{};  // why this rank has no memory to share; empty: it has some
  std::string to_string() const {
    return std::to_string(pid) + " " + std::to_string(segment) + " " + std::to_string(heap) + " " + domain +
           " " + problem;
  }
  static PeerInfo from(const std::string& text) {
    PeerInfo info;
    std::istringstream words(text);
    words >> info.pid >> info.segment >> info.heap >> info.domain >> std::ws;
    std::getline(words, info.problem);
    return info;
  }
};

// The memory that this rank shares with the others.
struct Own {
  Socket segment{}, heap{};
  PeerInfo info;
};

Own make_own(int rank, int size) {
  Own own;
  try {
    own.info.domain = "unknown";
    if (size > kMaxLocalRanks) {
      throw CommError("shared memory is for " + std::to_string(kMaxLocalRanks) +
                      " ranks at most, and these are " + std::to_string(size));
    }
    own.info.domain = memory_domain();
    if (rank == 0) own.segment = make_memory(Segment::bytes(size));
    own.heap = make_memory(kHeap);
    own.info.pid = getpid();
    own.info.segment = own.segment.fd();
    own.info.heap = own.heap.fd();
  } catch (const CommError& error) {
    own.info.problem = error.what();
  }
  return own;
}

std::shared_ptr<ProcessMemory> map_all(int rank, const std::vector<PeerInfo>& peers, const Socket& segment,
                                       Socket heap) {
  const int size = static_cast<int>(peers.size());
  for (int other = 0; other < size; ++other) {
    const PeerInfo& info = peers[static_cast<std::size_t>(other)];
    if (!info.problem.empty()) throw CommError("rank " + std::to_string(other) + ": " + info.problem);
    if (info.domain == peers[0].domain) continue;
    throw CommError("rank " + std::to_string(other) +
                    " is on another host than rank 0, or in another container, or another user's: they "
                    "cannot share memory");
  }
  const std::size_t bytes = Segment::bytes(size);
  std::shared_ptr<std::byte> shared =
      rank == 0 ? map_memory(segment, bytes) : map_memory_of(peers[0].pid, peers[0].segment, bytes);
  std::vector<std::shared_ptr<std::byte>> heaps;
  for (int other = 0; other < size; ++other) {
    const PeerInfo& info = peers[static_cast<std::size_t>(other)];
    heaps.push_back(other == rank ? nullptr : map_memory_of(info.pid, info.heap, kHeap));
  }
  std::shared_ptr<std::byte> own = map_memory(heap, kHeap);
  return std::make_shared<ProcessMemory>(
      rank, std::move(shared), std::make_unique<Heap>(std::move(heap), std::move(own)), std::move(heaps));
}

}  // namespace

std::unique_ptr<Liveness> make_process_liveness(const std::vector<int>& pids) {
  return std::make_unique<ProcessLiveness>(pids);
}

namespace {

std::unique_ptr<Backend> make_shm_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  const int rank = rendezvous.rank(), size = rendezvous.size();
  Own own = make_own(rank, size);
  std::vector<PeerInfo> peers;
  for (const std::string& text : rendezvous.all_gather(own.info.to_string()))
    peers.push_back(PeerInfo::from(text));
  std::unique_ptr<Backend> backend;
  std::string problem;
  try {
    auto memory = map_all(rank, peers, own.segment, std::move(own.heap));
    std::vector<int> pids;
    for (const PeerInfo& info : peers) pids.push_back(info.pid);
    backend = std::make_unique<HostBackend>("shm", rank, size, rendezvous.epoch(), std::move(memory),
                                            make_process_liveness(pids), options);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // The ranks agree, so that all of them share memory or none does.
  const std::vector<std::string> problems = rendezvous.all_gather(problem);
  for (int other = 0; other < size; ++other) {
    const std::string& theirs = problems[static_cast<std::size_t>(other)];
    if (!theirs.empty()) throw CommError("rank " + std::to_string(other) + ": " + theirs);
  }
  return backend;
}

}  // namespace

HEDDLE_BACKENDS(shm) { table.add({.name = "shm", .make = make_shm_backend, .everywhere = true}); }

}  // namespace heddle::comm_detail
