#include "op/op_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace heddle::detail;

namespace {

struct Block {
  unsigned char* memory;
  std::size_t size;
  unsigned char fill;
  bool whole() const {
    return std::all_of(memory, memory + size, [this](unsigned char c) { return c == fill; });
  }
};

Block make_block(std::size_t size, unsigned char fill) {
  auto* memory = static_cast<unsigned char*>(op_allocate(size));
  std::memset(memory, fill, size);
  return {memory, size, fill};
}

void free_block(const Block& block) { op_free(block.memory, 1, block.size > kLargestOp); }

}  // namespace

TEST_CASE("blocks are aligned, distinct and whole") {
  std::mt19937 random(1);
  std::vector<Block> blocks;
  for (int i = 0; i < 20000; ++i) {
    if (blocks.size() > 100) {
      const std::size_t at = random() % blocks.size();
      REQUIRE(blocks[at].whole());
      free_block(blocks[at]);
      blocks[at] = blocks.back();
      blocks.pop_back();
    }
    const std::size_t size = 1 + random() % (i % 100 == 0 ? 20000 : 3000);
    blocks.push_back(make_block(size, static_cast<unsigned char>(i)));
    REQUIRE(reinterpret_cast<std::uintptr_t>(blocks.back().memory) % kOpAlign == 0);
  }
  for (const Block& block : blocks) {
    REQUIRE(block.whole());
    free_block(block);
  }
}

TEST_CASE("what other threads free is used again: memory does not grow") {
  std::mutex mutex;
  std::deque<Block> handed_over;
  std::size_t left = 300000;
  std::thread other([&] {
    for (std::size_t freed = 0; freed < left;) {
      std::unique_lock lock(mutex);
      if (handed_over.empty()) {
        lock.unlock();
        std::this_thread::yield();
        continue;
      }
      const Block block = handed_over.front();
      handed_over.pop_front();
      lock.unlock();
      REQUIRE(block.whole());
      free_block(block);
      ++freed;
    }
  });
  const std::size_t before = op_memory_resident();
  std::size_t most = 0;
  for (std::size_t i = 0; i < left; ++i) {
    const Block block = make_block(128, static_cast<unsigned char>(i));
    std::size_t waiting;
    {
      std::lock_guard guard(mutex);
      handed_over.push_back(block);
      waiting = handed_over.size();
    }
    while (waiting > 1000) {
      std::this_thread::yield();
      std::lock_guard guard(mutex);
      waiting = handed_over.size();
    }
    most = std::max(most, op_memory_resident());
  }
  other.join();
  // At most about 1,000 blocks of 128 bytes are in flight, which take two chunks of 64 KiB.
  CHECK(most <= before + 16 * 64 * 1024);
}

TEST_CASE("memory of a burst goes back to the system when it is trimmed") {
  const std::size_t before = op_memory_resident();
  std::thread burst([] {
    std::vector<Block> blocks;
    for (int i = 0; i < 100000; ++i) blocks.push_back(make_block(128, 1));
    CHECK(op_memory_resident() > 12'000'000);
    for (const Block& block : blocks) free_block(block);
  });
  burst.join();
  op_memory_trim();
  // The pool that the burst's thread has left keeps a few chunks.
  CHECK(op_memory_resident() <= before + 5 * 64 * 1024);
}

TEST_CASE("a thread that ends leaves its memory to the next one") {
  auto make_and_free = [] {
    for (int i = 0; i < 2000; ++i) free_block(make_block(512, 7));
  };
  std::thread(make_and_free).join();
  const std::size_t before = op_memory_resident();
  for (int i = 0; i < 50; ++i) std::thread(make_and_free).join();
  CHECK(op_memory_resident() <= before + 2 * 64 * 1024);
}

TEST_CASE("so does one that makes blocks while its thread_local objects die") {
  struct Late {
    bool used = false;
    ~Late() {
      if (used) free_block(make_block(512, 7));
    }
  };
  auto make_and_free = [] {
    // Constructed before the thread's first block, and so destroyed after the thread's pool.
    thread_local Late late;
    late.used = true;
    free_block(make_block(512, 7));
  };
  std::thread(make_and_free).join();
  const std::size_t before = op_memory_resident();
  for (int i = 0; i < 50; ++i) std::thread(make_and_free).join();
  CHECK(op_memory_resident() <= before + 2 * 64 * 1024);
}
