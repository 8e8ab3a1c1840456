// Random mismatches between ranks' calls: every rank soon gets an error that names the ranks and calls.
// HEDDLE_MISMATCHES: how many; default 200.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/call_tag.h>
#include <heddle/communicator.h>

#include "core/collective.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using comm_detail::Kind;
using Clock = std::chrono::steady_clock;
using Random = std::mt19937;

namespace {

int below(Random& random, int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); }

struct Call {
  Kind kind = Kind::all_reduce;
  std::int64_t count = 4;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int peer = 0;
};

Call random_call(Random& random, int ranks, std::initializer_list<Kind> kinds) {
  constexpr std::int64_t kCounts[] = {1, 12, 900, 4096, 5000, 70'000};
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32};
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  return {kinds.begin()[below(random, static_cast<int>(kinds.size()))], kCounts[below(random, 6)],
          kTypes[below(random, 3)], kOps[below(random, 3)], below(random, ranks)};
}

Call any_call(Random& random, int ranks) {
  return random_call(random, ranks,
                     {Kind::all_reduce, Kind::broadcast, Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                      Kind::all_to_all, Kind::barrier});
}

// Makes the call and waits for its results.
void make(Communicator& comm, const Call& call) {
  const std::int64_t all = call.count * comm.size();
  NDArray data = zeros({call.count}, call.dtype), large = zeros({all}, call.dtype), other = data;
  switch (call.kind) {
    case Kind::all_reduce:
      comm.all_reduce(data, call.op);
      break;
    case Kind::reduce:
      comm.reduce(data, call.peer, call.op);
      break;
    case Kind::reduce_scatter:
      comm.reduce_scatter(large, data, call.op);
      break;
    case Kind::all_gather:
      comm.all_gather(data, other = large);
      break;
    case Kind::broadcast:
      comm.broadcast(data, call.peer);
      break;
    case Kind::all_to_all:
      comm.all_to_all(large, other = zeros({all}, call.dtype));
      break;
    case Kind::send:
      comm.send(data, call.peer);
      break;
    case Kind::recv:
      comm.recv(data, call.peer);
      break;
    default:
      comm.barrier();
  }
  comm.wait();
  data.wait();
  other.wait();
}

// For each rank the calls that it makes after the calls that all ranks have in common.
using CallsByRank = std::vector<std::vector<Call>>;
struct Class {
  const char* name;
  CallsByRank (*make)(Random& random, int ranks, int odd);
};

// Calls by rank: `other` for the rank `odd`, `even` for all other ranks.
CallsByRank but_one(int ranks, int odd, const std::vector<Call>& even, const std::vector<Call>& other) {
  CallsByRank calls_by_rank(static_cast<std::size_t>(ranks), even);
  calls_by_rank[static_cast<std::size_t>(odd)] = other;
  return calls_by_rank;
}

int next_to(int rank, int ranks) { return (rank + 1) % ranks; }

// Calls by rank: `mine` for the rank `odd`, `neighbours` for the rank after it, and nothing for the other
// ranks, which go on to the barrier.
CallsByRank pair(int ranks, int odd, const Call& mine, const Call& neighbours) {
  CallsByRank calls_by_rank = but_one(ranks, odd, {}, {mine});
  calls_by_rank[static_cast<std::size_t>(next_to(odd, ranks))] = {neighbours};
  return calls_by_rank;
}

const std::initializer_list<Kind> kCounted = {Kind::all_reduce, Kind::broadcast, Kind::reduce,
                                              Kind::all_gather, Kind::reduce_scatter};

const Class kClasses[] = {
    {"count",
     [](Random& random, int ranks, int odd) {
       const Call call = random_call(random, ranks, kCounted);
       Call other = call;
       other.count += 1 + below(random, 20'000);
       return but_one(ranks, odd, {call}, {other});
     }},
    {"reduction",
     [](Random& random, int ranks, int odd) {
       const Call call = random_call(random, ranks, {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter});
       Call other = call;
       other.op = call.op == ReduceOp::prod ? ReduceOp::sum : ReduceOp::prod;
       return but_one(ranks, odd, {call}, {other});
     }},
    {"dtype",
     [](Random& random, int ranks, int odd) {
       const Call call = any_call(random, ranks);
       Call even = call, other = call;
       if (call.kind == Kind::barrier) even.kind = other.kind = Kind::all_to_all;
       other.dtype = call.dtype == DType::i64 ? DType::u8 : DType::i64;
       return but_one(ranks, odd, {even}, {other});
     }},
    {"kind",
     [](Random& random, int ranks, int odd) {
       const Call call = any_call(random, ranks);
       Call other = call;
       while (other.kind == call.kind) other.kind = any_call(random, ranks).kind;
       return but_one(ranks, odd, {call}, {other});
     }},
    {"root",
     [](Random& random, int ranks, int odd) {
       const Call call = random_call(random, ranks, {Kind::broadcast, Kind::reduce});
       Call other = call;
       other.peer = next_to(call.peer, ranks);
       return but_one(ranks, odd, {call}, {other});
     }},
    {"order",
     [](Random& random, int ranks, int odd) {
       const Call first = any_call(random, ranks);
       Call second = random_call(random, ranks, kCounted);
       second.count = first.count + 1;
       return but_one(ranks, odd, {first, second}, {second, first});
     }},
    {"a call left out",
     [](Random& random, int ranks, int odd) {
       const Call left_out = random_call(random, ranks, kCounted);
       return but_one(ranks, odd, {left_out}, {});
     }},
    {"a call too many",
     [](Random& random, int ranks, int odd) {
       const Call more = random_call(random, ranks, kCounted);
       return but_one(ranks, odd, {}, {more});
     }},
    {"length of a message",
     [](Random& random, int ranks, int odd) {
       Call send = random_call(random, ranks, {Kind::send}), recv = send;
       recv.kind = Kind::recv;
       recv.count += 1 + below(random, 100);
       send.peer = next_to(odd, ranks);
       recv.peer = odd;
       return pair(ranks, odd, send, recv);
     }},
    {"dtype of a message",
     [](Random& random, int ranks, int odd) {
       Call send = random_call(random, ranks, {Kind::send}), recv = send;
       recv.kind = Kind::recv;
       recv.dtype = DType::u8;
       send.peer = next_to(odd, ranks);
       recv.peer = odd;
       return pair(ranks, odd, send, recv);
     }},
    {"both receive",
     [](Random& random, int ranks, int odd) {
       Call mine = random_call(random, ranks, {Kind::recv}), theirs = mine;
       mine.peer = next_to(odd, ranks);
       theirs.peer = odd;
       return pair(ranks, odd, mine, theirs);
     }},
    {"everybody receives from the next",
     [](Random& random, int ranks, int) {
       CallsByRank calls_by_rank;
       for (int rank = 0; rank < ranks; ++rank) {
         Call call = random_call(random, ranks, {Kind::recv});
         call.peer = next_to(rank, ranks);
         calls_by_rank.push_back({call});
       }
       return calls_by_rank;
     }},
    {"a message that is a collective elsewhere",
     [](Random& random, int ranks, int odd) {
       Call recv = random_call(random, ranks, {Kind::recv});
       recv.peer = next_to(odd, ranks);
       return but_one(ranks, odd, {any_call(random, ranks)}, {recv});
     }},
    {"a message that nobody sends",
     [](Random& random, int ranks, int odd) {
       Call recv = random_call(random, ranks, {Kind::recv});
       recv.peer = next_to(odd, ranks);
       return but_one(ranks, odd, {}, {recv});
     }},
    {"large messages that nobody takes",
     [](Random& random, int ranks, int odd) {
       Call mine = random_call(random, ranks, {Kind::send}), theirs;
       mine.count = 100'000;
       theirs = mine;
       mine.peer = next_to(odd, ranks);
       theirs.peer = odd;
       return pair(ranks, odd, mine, theirs);
     }},
};

std::size_t occurrences(const std::string& text, const std::string& of) {
  std::size_t count = 0;
  for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
  return count;
}

std::size_t ranks_named(const std::string& text, int ranks) {
  std::size_t count = 0;
  for (int rank = 0; rank < ranks; ++rank) count += occurrences(text, "rank " + std::to_string(rank)) > 0;
  return count;
}

struct Times {
  Clock::time_point begins{}, hears{};
};

// Makes the calls that all ranks have in common, then this rank's own calls. Throws the error that they give.
void part(Communicator& comm, const std::vector<Call>& together, const std::vector<Call>& alone,
          Times& times) {
  for (const Call& call : together) make(comm, call);
  times.begins = Clock::now();
  try {
    for (const Call& call : alone) make(comm, call);
    make(comm, {.kind = Kind::barrier});
    make(comm, {.kind = Kind::broadcast, .count = 77});
  } catch (...) {
    times.hears = Clock::now();
    throw;
  }
}

// Injects a mismatch. Returns the milliseconds from the moment when the last rank begins its differing calls
// until the last rank has its error.
double inject(const Class& what, Random& random) {
  const int ranks = 2 + below(random, 4), odd = below(random, ranks);
  std::vector<Call> together(static_cast<std::size_t>(below(random, 4)));
  for (Call& call : together) call = any_call(random, ranks);
  const CallsByRank calls_by_rank = what.make(random, ranks, odd);
  std::vector<Times> times(static_cast<std::size_t>(ranks));
  const Outcomes outcomes = try_local(ranks, {}, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    part(comm, together, calls_by_rank[rank], times[rank]);
  });
  Clock::time_point begins{}, hears{};
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const std::string text = text_of(outcomes[rank]);
    CAPTURE(rank);
    CAPTURE(text);
    REQUIRE(kind_of(outcomes[rank]) == "CommMismatch");
    REQUIRE(ranks_named(text, ranks) >= 2);
    REQUIRE(occurrences(text, "comm_mismatch_test.cc:") >= 2);
    begins = std::max(begins, times[rank].begins);
    hears = std::max(hears, times[rank].hears);
  }
  return std::chrono::duration<double, std::milli>(hears - begins).count();
}

}  // namespace

TEST_CASE("whatever ranks call differently, all of them are told who called what and where") {
  const char* wanted = std::getenv("HEDDLE_MISMATCHES");
  const int count = wanted ? std::atoi(wanted) : 200;
  std::vector<double> times;
  for (int seed = 0; seed < count; ++seed) {
    Random random(static_cast<unsigned>(seed));
    const Class& what = kClasses[static_cast<std::size_t>(seed) % std::size(kClasses)];
    CAPTURE(seed);
    CAPTURE(std::string(what.name));
    times.push_back(inject(what, random));
  }
  std::sort(times.begin(), times.end());
  MESSAGE(count, " mismatches of ", std::size(kClasses), " classes: the last rank knew after ",
          times[times.size() / 2], " ms (median), ", times[times.size() * 99 / 100], " ms (p99), ",
          times.back(), " ms (most)");
}

TEST_CASE(
    "ranks whose tags differ are told both, and a tag counts for its communicator and its thread alone") {
  for (const std::string backend : {"shm", "tcp"}) {
    CAPTURE(backend);
    const Outcomes outcomes = try_job(backend, 3, {}, [](Communicator& comm) {
      const NDArray data = ones({4});
      const auto other = comm.split(0);
      {
        const CallTag tag(*other, "of the other one, rank " + std::to_string(comm.rank()));
        comm.all_reduce(data);
        data.wait();
      }
      std::thread([&] {
        const CallTag tag(comm, "of another thread, rank " + std::to_string(comm.rank()));
      }).join();
      const CallTag outer(comm, "rank " + std::to_string(comm.rank()));
      {
        const CallTag inner(comm, "the same");
        comm.all_reduce(data);
        data.wait();
      }
      comm.all_reduce(data);
      data.wait();
    });
    for (const std::exception_ptr& error : outcomes) {
      CHECK(kind_of(error) == "CommMismatch");
      const std::string text = text_of(error);
      CAPTURE(text);
      CHECK(text.find("x 4 (rank ") != std::string::npos);
      CHECK(text.find("comm_mismatch_test.cc:") != std::string::npos);
    }
  }
}

TEST_CASE("tags of calls that go as one, and of calls without the engine, count too") {
  const auto differ = [](const std::function<void(Communicator&)>& call) {
    for (const std::string backend : {"shm", "tcp"}) {
      CAPTURE(backend);
      for (const std::exception_ptr& error : try_job(backend, 2, {}, call)) {
        CAPTURE(text_of(error));
        CHECK(kind_of(error) == "CommMismatch");
        CHECK(text_of(error).find("(tag 0)") != std::string::npos);
        CHECK(text_of(error).find("(tag 1)") != std::string::npos);
      }
    }
  };
  differ(
      // While the first call runs the others are queued, so the back end tcp fuses them.
      [](Communicator& comm) {
        std::vector<NDArray> data;
        for (int i = 0; i < 20; ++i) data.push_back(ones({8}));
        for (int i = 0; i < 20; ++i) {
          const CallTag tag(comm, "tag " + std::to_string(i == 17 ? comm.rank() : 5));
          comm.all_reduce(data[static_cast<std::size_t>(i)]);
        }
        for (const NDArray& one : data) one.wait();
      });
  differ([](Communicator& comm) {
    const CallTag tag(comm, "tag " + std::to_string(comm.rank()));
    float value = 1;
    comm.all_reduce(&value, 1, DType::f32);
  });
}
