// Threads as ranks: all memory can be reached by all.
#include <cstring>
#include <new>
#include <sys/mman.h>

#include "host_backend.h"

namespace heddle::detail {
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

// In one process an address is all that has to be told.
std::unique_ptr<Backend> make_local_backend(Rendezvous& rendezvous, const BackendOptions& options) {
  std::shared_ptr<ThreadMemory> mine;
  std::string word;
  if (rendezvous.rank() == 0) {
    mine = std::make_shared<ThreadMemory>(rendezvous.size());
    word = std::to_string(reinterpret_cast<std::uintptr_t>(&mine));
  }
  const auto address = static_cast<std::uintptr_t>(std::stoull(rendezvous.all_gather(word)[0]));
  const std::shared_ptr<ThreadMemory> memory = *reinterpret_cast<std::shared_ptr<ThreadMemory>*>(address);
  rendezvous.all_gather("");  // rank 0's pointer has been copied by all
  return std::make_unique<HostBackend>("local", rendezvous.rank(), rendezvous.size(), rendezvous.epoch(),
                                       memory, make_thread_liveness(), options);
}

}  // namespace heddle::detail
