// The number of cores of ranks that are bound, to separate or common cores, and of ranks that are not.
#include "host/host_cores.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#include <doctest/doctest.h>

#include <heddle/usable_cores.h>

#include "one_core.h"

using namespace heddle;
using namespace heddle::comm_detail;

namespace {

struct Memory {
  explicit Memory(int ranks)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(kLine, Segment::bytes(ranks))), std::free),
        segment(bytes.get(), ranks) {
    REQUIRE(bytes);
    std::memset(bytes.get(), 0, Segment::bytes(ranks));
  }
  void comes(int rank, std::initializer_list<unsigned> cores) {
    RankBlock& rank_block = segment.rank_block(rank);
    for (const unsigned core : cores) rank_block.cores[core / 64].fetch_or(std::uint64_t{1} << core % 64);
    rank_block.presence = Presence::joined;
  }
  std::unique_ptr<std::byte, decltype(&std::free)> bytes;
  Segment segment;
};

}  // namespace

TEST_CASE("the cores of several ranks are those that any of them may use") {
  Memory apart(2), together(2), some(3);
  apart.comes(0, {0});
  CHECK(!cores_of_ranks(apart.segment));  // unknown, since rank 1 has not recorded its cores yet
  apart.comes(1, {1});
  CHECK(cores_of_ranks(apart.segment) == 2);
  for (int rank : {0, 1}) together.comes(rank, {7});
  CHECK(cores_of_ranks(together.segment) == 1);
  some.comes(0, {0, 1, 63});
  some.comes(1, {1, 64, 1023});
  some.comes(2, {64});
  some.segment.rank_block(2).presence = Presence::left;  // the cores of a rank that has left count too
  CHECK(cores_of_ranks(some.segment) == 5);
}

TEST_CASE("a rank says what its thread may run on") {
  Memory memory(1);
  test::on_one_core([&] { record_cores(memory.segment.rank_block(0)); });
  memory.segment.rank_block(0).presence = Presence::joined;
  CHECK(cores_of_ranks(memory.segment) == 1);
  record_cores(memory.segment.rank_block(0));  // this thread is not bound to a core
  CHECK(cores_of_ranks(memory.segment) == usable_cores().by_affinity);
}
