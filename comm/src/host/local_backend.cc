// The back end 'local': ranks are threads of one process, which share all memory.
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>

#include "core/backend_table.h"
#include "host/host_backend.h"

namespace heddle::comm_detail {
namespace {

std::shared_ptr<std::byte> zeros(std::size_t bytes) {
  constexpr std::align_val_t kAlign{kLine};
  auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlign));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* pointer) { ::operator delete(pointer, kAlign); }};
}

// Returns zeros that take no memory before they are used: most of a large segment is never used.
std::shared_ptr<std::byte> lazy_zeros(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [bytes](std::byte* pointer) { munmap(pointer, bytes); }};
}

class ThreadMemory final : public HostMemory {
 public:
  explicit ThreadMemory(int ranks) : segment_(lazy_zeros(Segment::bytes(ranks))) {}
  std::byte* segment() const override { return segment_.get(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return zeros(bytes); }
  std::byte* find(int, std::uint64_t address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(address);
  }
  std::uint64_t shared_address(const std::byte* data, std::size_t) const override {
    return reinterpret_cast<std::uint64_t>(data);
  }

 private:
  const std::shared_ptr<std::byte> segment_;
};

class ThreadLiveness final : public Liveness {
  bool ended(int) const override { return false; }
  bool has_heartbeats() const override { return false; }
};

// Memory that rank 0 has allocated, by a name that rank 0 sends to the other ranks. The ranks get a name and
// no address, because rank 0 may fail and free the memory at any time.
struct Offers {
  std::mutex mutex;  // guards the members below
  std::map<std::string, std::weak_ptr<ThreadMemory>> memory{};
  std::uint64_t made = 0;

  static Offers& all() {
    static Offers& offers = *new Offers;
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
    if (!taken) throw CommError("rank 0 has failed before the others had its memory");
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

namespace {

std::unique_ptr<Backend> make_local_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  std::shared_ptr<ThreadMemory> memory;
  std::string name;
  if (rendezvous.rank() == 0) {
    memory = std::make_shared<ThreadMemory>(rendezvous.size());
    name = Offers::all().add(memory);
  }
  name = rendezvous.all_gather(name)[0];
  if (!memory) memory = Offers::all().take(name);
  rendezvous.all_gather("");  // keeps rank 0 here, which owns the memory, until all ranks have found it
  return std::make_unique<HostBackend>("local", rendezvous.rank(), rendezvous.size(), rendezvous.epoch(),
                                       memory, make_thread_liveness(), options);
}

}  // namespace

HEDDLE_BACKENDS(local) {
  table.add({.name = "local", .make = make_local_backend, .everywhere = true, .threads = true});
}

}  // namespace heddle::comm_detail
