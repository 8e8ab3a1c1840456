// How communicators end, and that they leave arrays alone afterwards.
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>
#include <heddle/graph.h>

#include "core/backend_table.h"
#include "gate.h"
#include "host/host_collectives.h"
#include "host/host_group.h"
#include "host/stuck.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

NDArray floats(std::int64_t count, float value = 1) {
  return array(std::vector<float>(static_cast<std::size_t>(count), value), {count});
}

// The RankBlocks of a shared segment in plain memory, without communicators.
struct RankBlocks {
  explicit RankBlocks(int ranks)
      : memory(new (std::align_val_t{comm_detail::kLine}) std::byte[comm_detail::Segment::bytes(ranks)]()),
        segment(memory, ranks) {}
  ~RankBlocks() { ::operator delete[](memory, std::align_val_t{comm_detail::kLine}); }
  RankBlocks(const RankBlocks&) = delete;
  RankBlocks& operator=(const RankBlocks&) = delete;
  std::byte* memory;
  comm_detail::Segment segment;

  void write_wait(int rank, int which, const comm_detail::Counter& counter, int awaited) const {
    comm_detail::Wait& wait = segment.rank_block(rank).waits[which];
    wait.target = 1;
    wait.rank = static_cast<std::uint32_t>(awaited);
    wait.counter = segment.offset_of(counter);
  }
};

struct Unreachable : comm_detail::PeerMemory {
  std::byte* find(int, std::uint64_t, std::size_t) const override { return nullptr; }
  std::uint64_t shared_address(const std::byte*, std::size_t) const override { return 0; }
};

}  // namespace

TEST_CASE("a graph that outlives its communicator fails, and hangs nobody") {
  auto ranks = Communicator::create_local(2);
  NDArray data = floats(8);
  Graph step = ranks[0]->engine().capture([&] { ranks[0]->all_reduce(data); });
  ranks.clear();
  for (int i = 0; i < 2; ++i) {
    step.launch();
    CHECK_THROWS_AS(data.wait(), CommAborted);
  }
}

TEST_CASE("a timeout is a day at most: a later deadline would overflow") {
  constexpr std::chrono::milliseconds kDay = std::chrono::hours(24);
  CHECK(Communicator::create_local(1, {.timeout = kDay}).size() == 1);
  for (const auto timeout : {kDay + 1ms, std::chrono::milliseconds::max(), std::chrono::milliseconds::min()})
    CHECK_THROWS_AS(Communicator::create_local(1, {.timeout = timeout}), InvalidArgument);
  const auto alone = Communicator::create({}, LaunchEnvironment{});
  CHECK_THROWS_AS(alone->grow(0, std::chrono::milliseconds::max()), InvalidArgument);
  alone->barrier();
  alone->wait();  // works, since the refused grow() has not aborted the communicator
}

TEST_CASE("a communicator does not wait for ever for arrays that are not there") {
  auto ranks = Communicator::create_local(2, {.timeout = 20ms});
  NDArray late = floats(8), ready = floats(8);
  Gate gate(current_engine());
  gate.hold(late);
  ranks[0]->all_reduce(late);
  ranks[0]->all_reduce(ready);
  ranks.clear();
  CHECK_THROWS_AS(ready.wait(), CommAborted);
  gate.open();
  CHECK_THROWS_AS(late.wait(), CommAborted);
}

TEST_CASE(
    "a communicator that is destroyed waits once for its timeout, not once more for what it has given up") {
  auto ranks = Communicator::create_local(2, {.timeout = 300ms});
  NDArray under_way = floats(8), late = floats(8);
  Gate gate(current_engine());
  gate.hold(late);
  ranks[0]->all_reduce(under_way);  // waits until the timeout: rank 1 never calls
  ranks[0]->all_reduce(late);
  std::thread opener([&] {
    CHECK_THROWS_AS(under_way.wait(), CommAborted);
    gate.open();
  });
  ranks[0].reset();
  opener.join();
  CHECK_THROWS_WITH_AS(late.wait(), "the communicator was destroyed before this call could begin",
                       CommAborted);
}

TEST_CASE("all that an abort ends has one cause, and who has seen it has seen it") {
  auto ranks = Communicator::create_local(1);
  std::vector<NDArray> data;
  ranks[0]->abort("enough");
  for (int i = 0; i < 10; ++i) {
    data.push_back(floats(8));
    ranks[0]->all_reduce(data.back());
  }
  std::exception_ptr first;
  for (const NDArray& one : data) {
    CHECK_THROWS_AS(one.wait(), CommAborted);
    const std::exception_ptr error = current_engine().error_of(one.var()).exception;
    if (!first) first = error;
    CHECK(error == first);
  }
}

TEST_CASE("memory whose reduction was aborted is not touched any more") {
  constexpr std::size_t kCount = 1 << 20;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls = 0;
    auto ranks = Communicator::create_local(3);
    std::vector<std::vector<float>> data(ranks.size(), std::vector<float>(kCount, 1));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          while (true) {
            ++calls;
            ranks[rank]->all_reduce(data[rank].data(), kCount, DType::f32, ReduceOp::max);
          }
        } catch (const CommAborted&) {
          // Overwrites the data, so that later writes by another rank would be visible.
          data[rank].assign(kCount, -1);
        }
      });
    }
    while (calls < 4 + round) std::this_thread::yield();
    ranks[0]->abort("enough");
    for (std::thread& thread : threads) thread.join();
    for (const auto& values : data) REQUIRE(values == std::vector<float>(kCount, -1));
  }
}

TEST_CASE("if one rank cannot share memory all are told which and why, and can agree on something else") {
  SharedTable table(3);
  const auto children = fork_ranks(table, 3, [](int rank, SharedTable& shared) {
    if (rank == 1) {
      const rlimit little{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
      if (setrlimit(RLIMIT_FSIZE, &little) != 0) throw Error("setrlimit");
    }
    const auto rendezvous = shared.rendezvous(rank);
    std::string problem;
    try {
      comm_detail::find_backend("shm")->make(*rendezvous, {});
    } catch (const CommError& error) {
      problem = error.what();
    }
    // After the error the ranks can still use the rendezvous in step.
    const auto all = rendezvous->all_gather("after");
    shared.say(rank, problem + (all == std::vector<std::string>(3, "after") ? "" : " out of step"));
  });
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    CHECK(wait_for(children[rank]) == "");
    const std::string said = table.said(static_cast<int>(rank));
    CAPTURE(said);
    CHECK(said.find("rank 1: ") != std::string::npos);
    CHECK(said.find("RLIMIT_FSIZE") != std::string::npos);
    CHECK(said.find("out of step") == std::string::npos);
  }
}

TEST_CASE("a reduction that is given up ends when nobody reaches into its arrays any more") {
  const RankBlocks blocks(2);
  comm_detail::HostGroup mine(blocks.segment, 0, 10s, comm_detail::make_thread_liveness());
  comm_detail::HostGroup theirs(blocks.segment, 1, 10s, comm_detail::make_thread_liveness());
  std::optional<comm_detail::HostGroup::PeerAccess> access(theirs);
  std::atomic<bool> ended = false;
  std::thread rank([&] {
    const Unreachable nowhere;
    comm_detail::HostCollectives collectives(mine, nowhere);
    std::vector<std::byte> data(400'000);
    comm_detail::Collective call;
    call.record.kind = comm_detail::Kind::all_reduce;
    call.record.dtype = DType::f32;
    call.record.count = 100'000;
    call.record.sequence = 1;
    call.in = call.out = data.data();
    CHECK_THROWS_AS(collectives.run(call), CommAborted);
    ended = true;
  });
  const comm_detail::Counter& version = blocks.segment.rank_block(0).wait_version;
  while (version != 1) std::this_thread::yield();  // 1: rank 0, on the other thread, waits for rank 1
  theirs.report_fault(comm_detail::Fault::aborted, 1, "enough");
  // 2: rank 0 has ended its wait, since it has seen the fault.
  while (version != 2) std::this_thread::yield();
  for (int i = 0; i < 20'000 && !ended; ++i) std::this_thread::yield();
  CHECK(!ended);
  access.reset();
  rank.join();
  CHECK(ended);
}

TEST_CASE("what no memory can hold is refused, and what it can hold many ranks may share") {
  CHECK_THROWS_AS(Communicator::create_local(comm_detail::kMaxLocalRanks + 1), InvalidArgument);
  const auto ranks = Communicator::create_local(200);
  CHECK(ranks.size() == 200);
  float value = 1;
  for (std::size_t count : {std::size_t{1} << 62, SIZE_MAX, SIZE_MAX / 4 + 2}) {
    CHECK_THROWS_AS(ranks[0]->all_reduce(&value, count, DType::f32), InvalidArgument);
  }
}

TEST_CASE("ranks are stuck when all they wait for is, and not while one is writing down what it waits for") {
  const RankBlocks blocks(2);
  const comm_detail::Segment& segment = blocks.segment;
  blocks.write_wait(0, 0, segment.rank_block(1).phase, 1);
  segment.rank_block(0).wait_version = 1;
  blocks.write_wait(1, 0, segment.rank_block(0).phase, 0);
  CHECK(comm_detail::stuck_ranks(segment) == std::vector<bool>{false, false});
  blocks.write_wait(1, 1, segment.pipe(0, 1).head, 0);
  segment.rank_block(1).wait_version = 1;
  CHECK(comm_detail::stuck_ranks(segment) == std::vector<bool>{true, true});
  segment.pipe(0, 1).head = 1;
  CHECK(comm_detail::stuck_ranks(segment) == std::vector<bool>{false, false});
  segment.pipe(0, 1).head = 0;
  // An even number: rank 1 is awake, and has just removed its first wait.
  segment.rank_block(1).wait_version = 2;
  segment.rank_block(1).waits[0].counter = 0;
  CHECK(comm_detail::stuck_ranks(segment) == std::vector<bool>{false, false});
}

TEST_CASE("a rank that was killed while it said why is spoken for by another") {
  const RankBlocks blocks(2);
  blocks.segment.fault().taken = comm_detail::Taken::yes;
  comm_detail::HostGroup group(blocks.segment, 0, 10s, comm_detail::make_thread_liveness());
  try {
    group.fail(comm_detail::Fault::lost, 1, "rank 1 has ended");
  } catch (const PeerLost& lost) {
    CHECK(lost.rank() == 1);
    CHECK(std::string(lost.what()).starts_with("rank 1 has ended; "));
  }
  CHECK_THROWS_AS(group.check(), PeerLost);
}
