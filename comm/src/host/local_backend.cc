// Threads as ranks: all memory can be reached by all.
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>

#include "host/host_backend.h"

namespace heddle::comm_detail {
namespace {

std::shared_ptr<std::byte> zeros(std::size_t bytes) {
  constexpr std::align_val_t kAlign{kLine};
  auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlign));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* gone) { ::operator delete(gone, kAlign); }};
}

// Of the room for many ranks most is never used, and takes no memory then.
std::shared_ptr<std::byte> untouched(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [bytes](std::byte* gone) { munmap(gone, bytes); }};
}

class ThreadMemory final : public HostMemory {
 public:
  explicit ThreadMemory(int ranks) : segment_(untouched(Segment::bytes(ranks))) {}
  std::byte* segment() const override { return segment_.get(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return zeros(bytes); }
  std::byte* find(int, std::uint64_t address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(address);
  }
  std::uint64_t publish(const std::byte* data, std::size_t) const override {
    return reinterpret_cast<std::uint64_t>(data);
  }

 private:
  const std::shared_ptr<std::byte> segment_;
};

class ThreadLiveness final : public Liveness {
  bool ended(int) const override { return false; }
  bool beats() const override { return false; }
};

// Memory that one rank has made and the others are to take. A rank that leaves meanwhile may end the meeting at any
// point, so nobody is told an address.
struct Offers {
  std::mutex mutex;  // guards both
  std::map<std::string, std::weak_ptr<ThreadMemory>> memory{};
  std::uint64_t made = 0;

  static Offers& all() {
    static Offers offers;
    return offers;
  }
  std::string add(const std::shared_ptr<ThreadMemory>& offered) {
    const std::lock_guard lock(mutex);
    std::erase_if(memory, [](const auto& one) { return one.second.expired(); });
    std::string name = std::to_string(++made);
    memory[name] = offered;
    return name;
  }
  std::shared_ptr<ThreadMemory> take(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto found = memory.find(name);
    std::shared_ptr<ThreadMemory> taken = found == memory.end() ? nullptr : found->second.lock();
    if (!taken) throw CommError("the first of the ranks has given up");
    return taken;
  }
};

}  // namespace

std::unique_ptr<Liveness> make_thread_liveness() { return std::make_unique<ThreadLiveness>(); }

std::vector<std::unique_ptr<Backend>> make_local_backends(int size, const BackendOptions& options) {
  const auto memory = std::make_shared<ThreadMemory>(size);
  std::vector<std::unique_ptr<Backend>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(
        std::make_unique<HostBackend>("local", rank, size, 0, memory, make_thread_liveness(), options));
  }
  return ranks;
}

std::unique_ptr<Backend> make_local_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  std::shared_ptr<ThreadMemory> memory;
  std::string name;
  if (rendezvous.rank() == 0) {
    memory = std::make_shared<ThreadMemory>(rendezvous.size());
    name = Offers::all().add(memory);
  }
  name = rendezvous.all_gather(name)[0];
  if (!memory) memory = Offers::all().take(name);
  rendezvous.all_gather("");  // rank 0 keeps it until all have taken it
  return std::make_unique<HostBackend>("local", rendezvous.rank(), rendezvous.size(), rendezvous.epoch(),
                                       memory, make_thread_liveness(), options);
}

}  // namespace heddle::comm_detail
