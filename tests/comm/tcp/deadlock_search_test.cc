// Detection of ranks that wait for each other in a cycle.
#include "tcp/deadlock_search.h"

#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>

#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using comm_detail::DeadlockSearch;
using comm_detail::MessageCounts;
using comm_detail::Probe;

namespace {

NDArray floats(std::int64_t count, float value = 1) {
  return array(std::vector<float>(static_cast<std::size_t>(count), value), {count});
}

void check_cycle(const Outcomes& outcomes, const std::vector<std::string>& words) {
  for (const auto& outcome : outcomes) {
    CHECK(kind_of(outcome) == "CommMismatch");
    for (const std::string& word : words) {
      CAPTURE(text_of(outcome));
      CHECK(text_of(outcome).find(word) != std::string::npos);
    }
  }
}

// Ranks whose waits the test sets. A probe that one rank sends to another arrives at once.
struct Network {
  explicit Network(int size) {
    for (int rank = 0; rank < size; ++rank) counts.emplace_back(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank)
      searches.push_back(std::make_unique<DeadlockSearch>(rank, counts[at(rank)]));
  }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  void sleep(int rank, int from, int to = -1) {
    searches[at(rank)]->begin_wait();
    searches[at(rank)]->begin_sleep({}, from, to);
  }
  // Lets a rank search for a cycle. Returns the text that describes the cycle; empty if none was found.
  std::string search(int rank) {
    std::vector<std::tuple<int, int, Probe>> in_transit;
    for (auto& [to, probe] : searches[at(rank)]->start()) in_transit.emplace_back(rank, to, probe);
    while (!in_transit.empty()) {
      auto [from, to, probe] = in_transit.back();
      in_transit.pop_back();
      const DeadlockSearch::Result result = searches[at(to)]->received(from, probe);
      if (result.cycle) return result.cycle->text;
      for (auto& [next, more] : result.forward) in_transit.emplace_back(to, next, more);
    }
    return {};
  }
  std::vector<std::vector<MessageCounts>> counts;  // message counts by [rank][other rank]
  std::vector<std::unique_ptr<DeadlockSearch>> searches;
};

}  // namespace

TEST_CASE("cycle: three ranks that each wait for what the next one has not sent") {
  Network network(4);
  network.sleep(0, 1);
  network.sleep(1, 2);
  CHECK(network.search(0).empty());  // no cycle: rank 2 is awake and may send
  network.sleep(2, 0);
  network.sleep(3, 0);
  CHECK(network.search(3).empty());  // nothing: rank 3 waits for a rank of a cycle, but is not in the cycle
  for (const int rank : {0, 1, 2}) {
    const std::string text = network.search(rank);
    CHECK(text.find("rank 0 waits for rank 1") != std::string::npos);
    CHECK(text.find("rank 2 waits for rank 0") != std::string::npos);
  }
}

TEST_CASE("cycle: none if a message is on its way, or a rank has gone on") {
  Network network(3);
  network.sleep(0, 1);
  network.sleep(1, 2);
  network.counts[2][0].sent = 1;
  network.sleep(2, 0);
  CHECK(network.search(0) != "");
  network.searches[1]->end_sleep();
  network.counts[1][0].sent = 1;  // rank 1 has sent the message that rank 0 waits for
  network.sleep(1, 2);
  CHECK(network.search(0).empty());
  CHECK(network.search(2).empty());
  network.counts[0][1].received = 1;  // rank 0 has got that message, and now waits for the next one
  network.sleep(0, 1);
  CHECK(network.search(2) != "");
}

TEST_CASE("cycle: a probe that comes back when its rank is in another wait means nothing") {
  Network network(2);
  network.sleep(0, 1);
  network.sleep(1, 0);
  const auto old = network.searches[0]->start();
  const auto on = network.searches[1]->received(0, old[0].second).forward;
  REQUIRE(on.size() == 1);
  network.searches[0]->end_sleep();
  CHECK_FALSE(network.searches[0]->received(1, on[0].second).cycle);
  network.sleep(0, 1);
  CHECK_FALSE(network.searches[0]->received(1, on[0].second).cycle);
  CHECK(network.search(0) != "");
}

TEST_CASE("cycle: a sender waits for a receiver that does not read") {
  Network network(2);
  network.counts[0][1].sent = network.counts[1][0].sent = 1;
  network.sleep(0, -1, 1);
  network.sleep(1, -1, 0);
  CHECK(network.search(0) != "");
  network.sleep(1, 0, 0);  // rank 1 receives as well as sends, so rank 0's message can move
  CHECK(network.search(0).empty());
  CHECK(network.search(1).empty());
  network.counts[1][0].received = 1;
  network.sleep(1, -1, 0);
  CHECK(network.search(0).empty());
}

TEST_CASE("tcp: a recv of what nobody sends, while the others are in a reduction") {
  check_cycle(try_job("tcp", 3, {},
                      [](Communicator& comm) {
                        NDArray data = floats(4);
                        if (comm.rank() == 1) comm.recv(data, 0);
                        comm.all_reduce(data);
                        data.wait();
                      }),
              {"recv", "all_reduce #1", "deadlock_search_test.cc:", "rank 0", "rank 1"});
}

TEST_CASE("tcp: ranks that all receive first") {
  check_cycle(try_job("tcp", 3, {},
                      [](Communicator& comm) {
                        NDArray data = floats(4);
                        comm.recv(data, (comm.rank() + 1) % 3);
                        comm.send(data, (comm.rank() + 2) % 3);
                        data.wait();
                      }),
              {"rank 0 waits for rank 1 in recv", "rank 1 waits for rank 2 in recv"});
}

TEST_CASE("tcp: two sends, each too large to be on its way before it is received") {
  check_cycle(try_job("tcp", 2, {},
                      [](Communicator& comm) {
                        NDArray data = floats(16 << 20), other = floats(16 << 20);
                        comm.send(data, 1 - comm.rank());
                        comm.recv(other, 1 - comm.rank());
                        comm.wait();
                        other.wait();
                      }),
              {"rank 0 waits for rank 1 in send", "rank 1 waits for rank 0 in send"});
}

// Messages and reductions have one order on all ranks. So nothing deadlocks, however late a rank is.
TEST_CASE("tcp: no cycle where there is none") {
  constexpr int kRanks = 3, kCalls = 120;
  for (unsigned seed = 0; seed < 3; ++seed) {
    run_job("tcp", kRanks, {}, [&](Communicator& comm) {
      std::mt19937 random(seed), own(seed * 31 + static_cast<unsigned>(comm.rank()));
      const NDArray data = floats(40'000);
      for (int i = 0; i < kCalls; ++i) {
        const int from = static_cast<int>(random() % kRanks), to = static_cast<int>(random() % (kRanks + 1));
        if (own() % 16 == 0) data.wait();
        if (to == from || to == kRanks) {
          comm.all_reduce(data, ReduceOp::avg);
        } else if (comm.rank() == from) {
          comm.send(data, to);
        } else if (comm.rank() == to) {
          comm.recv(data, from);
        }
      }
      comm.wait();
      data.wait();
      REQUIRE(data.to_vector<float>()[0] == 1);
    });
  }
}
