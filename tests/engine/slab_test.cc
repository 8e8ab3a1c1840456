#include "slab.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace heddle::detail;

TEST_CASE("blocks are aligned, distinct and whole") {
  std::mt19937 random(1);
  struct Block {
    unsigned char* memory;
    std::size_t size;
    unsigned char fill;
  };
  std::vector<Block> blocks;
  auto check_and_free = [&](std::size_t at) {
    const Block& block = blocks[at];
    REQUIRE(std::all_of(block.memory, block.memory + block.size,
                        [&](unsigned char c) { return c == block.fill; }));
    slab_free(blocks[at].memory);
    blocks[at] = blocks.back();
    blocks.pop_back();
  };
  for (int i = 0; i < 20000; ++i) {
    if (blocks.size() > 100) check_and_free(random() % blocks.size());
    const std::size_t size = 1 + random() % 3000;
    auto* memory = static_cast<unsigned char*>(slab_allocate(size));
    REQUIRE(reinterpret_cast<std::uintptr_t>(memory) % alignof(std::max_align_t) == 0);
    blocks.push_back({memory, size, static_cast<unsigned char>(i)});
    std::memset(memory, i & 255, size);
  }
  while (!blocks.empty()) check_and_free(0);
}

TEST_CASE("blocks freed by another thread come back to their allocator") {
  std::mutex mutex;
  std::deque<int*> handed;
  bool closed = false;
  std::thread freer([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (handed.empty()) {
        if (closed) return;
        lock.unlock();
        std::this_thread::yield();
        continue;
      }
      int* block = handed.front();
      handed.pop_front();
      lock.unlock();
      *block += 1;
      slab_free(block);
    }
  });
  std::set<void*> addresses;
  for (int i = 0; i < 50000; ++i) {
    auto* block = static_cast<int*>(slab_allocate(1500));  // a size that no op of the other tests has
    *block = i;
    addresses.insert(block);
    std::unique_lock lock(mutex);
    while (handed.size() >= 32) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    handed.push_back(block);
  }
  {
    std::lock_guard guard(mutex);
    closed = true;
  }
  freer.join();
  CHECK(addresses.size() < 5000);  // reused, not carved anew each time
}
