#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/ndarray.h>

using namespace heddle;

namespace {

std::size_t block_size_for(std::size_t bytes) {
  Storage storage(current_engine(), cpu(), bytes);
  const std::size_t before = cpu_allocator_stats().in_use;
  storage.data();
  return cpu_allocator_stats().in_use - before;
}

}  // namespace

TEST_CASE("memory is taken at first use, aligned, and given back to the cache") {
  default_engine().wait_all();
  const AllocatorStats before = cpu_allocator_stats();
  std::byte* first = nullptr;
  {
    Storage storage(current_engine(), cpu(), 5000);
    CHECK(cpu_allocator_stats().in_use == before.in_use);
    first = storage.data();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    CHECK(storage.data() == first);
    CHECK(cpu_allocator_stats().in_use >= before.in_use + 5000);
    std::memset(first, 1, 5000);
  }
  CHECK(cpu_allocator_stats().in_use == before.in_use);
  CHECK(cpu_allocator_stats().cached >= 5000);
  Storage again(current_engine(), cpu(), 4999);
  CHECK(again.data() == first);
}

TEST_CASE("trimming empties the cache") {
  for (std::size_t bytes : {1u, 100u, 70000u, 5000000u}) Storage(current_engine(), cpu(), bytes).data();
  CHECK(cpu_allocator_stats().cached > 5000000);
  cpu_allocator_trim();
  CHECK(cpu_allocator_stats().cached == 0);
}

TEST_CASE("arrays of ever new sizes do not pile up in the cache") {
  cpu_allocator_trim();
  for (std::size_t bytes = std::size_t{1} << 20; bytes < std::size_t{400} << 20; bytes += bytes / 8) {
    Storage(current_engine(), cpu(), bytes).data();
    const AllocatorStats now = cpu_allocator_stats();
    CHECK(now.cached <= std::max(now.peak + now.peak / 2, std::size_t{64} << 20));
  }
  // A size of blocks that is used all the time stays cached: each allocation gets the same block again.
  std::byte* small = nullptr;
  for (int round = 0; round < 10; ++round) {
    Storage kept(current_engine(), cpu(), std::size_t{1} << 20);
    if (round > 0) CHECK(kept.data() == small);
    small = kept.data();
    Storage(current_engine(), cpu(), std::size_t{300} << 20).data();
  }
  CHECK(cpu_allocator_stats().cached >= std::size_t{301} << 20);
  cpu_allocator_trim();
}

TEST_CASE("the allocator holds no more memory than it counts") {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0, pages = 0;
    file >> total >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  cpu_allocator_trim();
  const std::size_t before = resident();
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> bytes(1, std::size_t{32} << 20);
  for (int round = 0; round < 300; ++round) {
    Storage one(current_engine(), cpu(), bytes(random)), other(current_engine(), cpu(), bytes(random));
    for (Storage* storage : {&one, &other}) std::memset(storage->data(), 1, storage->bytes());
  }
  cpu_allocator_trim();
  CHECK(resident() < before + (std::size_t{32} << 20));
}

TEST_CASE("blocks waste less than a quarter") {
  for (std::size_t bytes = 65; bytes < 40'000'000; bytes = bytes * 9 / 8 + 1) {
    const std::size_t block = block_size_for(bytes);
    CHECK(block >= bytes);
    CHECK(block % 64 == 0);
    CHECK((block < bytes + bytes / 4 + 1 || block - bytes < 64));
  }
  cpu_allocator_trim();
}

TEST_CASE("no bytes at all are a storage too") {
  Storage storage(current_engine(), cpu(), 0);
  CHECK(storage.data() != nullptr);
  CHECK(storage.bytes() == 0);
}

TEST_CASE("too much memory is bad_alloc, and nothing is counted") {
  const std::size_t before = cpu_allocator_stats().in_use;
  Storage storage(current_engine(), cpu(), std::numeric_limits<std::size_t>::max() / 2);
  CHECK_THROWS_AS(storage.data(), std::bad_alloc);
  CHECK(cpu_allocator_stats().in_use == before);
}

TEST_CASE("threads that touch a storage first together get one block") {
  constexpr std::size_t kCount = 500, kThreads = 3;
  // The blocks come fresh from the system, so their first touch is slow, and another thread can overtake.
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  for (int round = 0; round < 10; ++round) {
    cpu_allocator_trim();
    const std::size_t before = cpu_allocator_stats().in_use;
    std::vector<std::unique_ptr<Storage>> storages;
    for (std::size_t i = 0; i < kCount; ++i) {
      storages.push_back(std::make_unique<Storage>(current_engine(), cpu(), kBytes));
    }
    std::vector<std::vector<std::byte*>> seen(kThreads, std::vector<std::byte*>(kCount));
    std::vector<std::thread> threads;
    std::atomic<std::size_t> arrived{0};
    for (auto& mine : seen) {
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < kCount; ++i) {
          arrived.fetch_add(1);
          while (arrived.load() < (i + 1) * kThreads) std::this_thread::yield();
          mine[i] = storages[i]->data();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
    // Of threads that allocated the same storage at once, all but one have freed their blocks.
    CHECK(cpu_allocator_stats().in_use == before + kCount * kBytes);
  }
}

TEST_CASE("threads may allocate and free together without sharing a block") {
  std::vector<std::thread> threads;
  std::atomic<int> torn{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&torn, t] {
      std::vector<std::unique_ptr<Storage>> held(8);
      for (std::size_t i = 0; i < 2000; ++i) {
        auto& slot = held[i * 7 % held.size()];
        if (slot) {
          const std::byte* data = slot->data();
          for (std::size_t k = 0; k < slot->bytes(); k += 61) torn += data[k] != static_cast<std::byte>(t);
        }
        slot = std::make_unique<Storage>(current_engine(), cpu(), 1 + i * 37 % 3000);
        std::memset(slot->data(), t, slot->bytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
}

TEST_CASE("versions count the ops that change a storage") {
  NDArray a = zeros({3});
  const std::uint64_t before = a.storage()->version();
  a.fill(1);
  CHECK(a.storage()->version() == before + 1);
  a[0].fill(2);
  CHECK(a.storage()->version() == before + 2);
  a.copy();
  a.to_vector<float>();
  CHECK(a.storage()->version() == before + 2);
}

TEST_CASE("a device without memory in this build is refused at the call") {
  CHECK_THROWS_AS(NDArray({2}, DType::f32, gpu(gpu_count())), InvalidArgument);
}

TEST_CASE("memory that is lent from a GPU is out of the CPU's reach, and has an address for streams") {
  Engine& engine = current_engine();
  const auto memory = std::make_shared<std::array<std::byte, 8>>();
  const std::shared_ptr<std::byte> lent(memory, memory->data());
  const NDArray array(std::make_shared<Storage>(engine, gpu(1), memory->size(), lent), {2}, DType::f32);
  CHECK(array.device() == gpu(1));
  CHECK(array.storage()->device_data() == memory->data());
  array_push("set", {}, {array}, [=] { array.data<float>()[0] = 1; });
  CHECK_THROWS_WITH_AS(
      array.wait(),
      "an array of f32 (2,) lies on gpu(1), which the CPU cannot reach; ops on a stream of that device can "
      "(Engine::push_on)",
      Error);
}
