// Calls as ops: their order, their dependencies, and their use in graphs and ops.
#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>
#include <heddle/graph.h>

#include "arguments.h"
#include "gate.h"
#include "one_core.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray floats(std::int64_t count, float value = 1) {
  return array(std::vector<float>(static_cast<std::size_t>(count), value), {count});
}

std::vector<float> all_of(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

}  // namespace

TEST_CASE("the lecture's example: B is reduced while D is computed") {
  run_local(2, {}, [](Communicator& comm) {
    NDArray a = floats(3), b = floats(3), d = floats(3);
    a.fill(2);
    comm.all_reduce(a, b);
    d.assign(a);
    comm.all_reduce(d, ReduceOp::prod);
    REQUIRE(b.to_vector<float>() == all_of(3, 4));
    REQUIRE(d.to_vector<float>() == all_of(3, 4));
  });
}

TEST_CASE("what is ready first waits for what was called first") {
  run_local(2, {}, [](Communicator& comm) {
    NDArray late = floats(5), early = floats(5, 3);
    Gate gate(comm.engine());
    gate.hold(late);
    comm.all_reduce(late);
    comm.all_reduce(early);
    // `early` was ready before, `late` becomes ready only now: the calls still run in the order in which they
    // were made.
    gate.open();
    REQUIRE(early.to_vector<float>() == all_of(5, 6));
    REQUIRE(late.to_vector<float>() == all_of(5, 2));
  });
}

// A communicator with one rank keeps no order of calls: threads that call at the same time may queue their
// calls in one order and push their ops in the other.
TEST_CASE("with one rank a call runs when it is ready, whatever was called before") {
  run_local(1, {}, [](Communicator& comm) {
    NDArray late = floats(5), early = floats(5, 3);
    Gate gate(comm.engine());
    gate.hold(late);
    comm.all_reduce(late);
    comm.all_reduce(early, ReduceOp::max);
    REQUIRE(early.to_vector<float>() == all_of(5, 3));
    gate.open();
    REQUIRE(late.to_vector<float>() == all_of(5, 1));
    comm.wait();
  });
}

TEST_CASE("a thousand calls without a wait") {
  run_local(3, {}, [](Communicator& comm) {
    std::vector<NDArray> all;
    for (int i = 0; i < 1000; ++i) {
      all.push_back(floats(1 + i % 50, static_cast<float>(i)));
      comm.all_reduce(all.back());
    }
    for (int i = 0; i < 1000; ++i) {
      REQUIRE(all[static_cast<std::size_t>(i)].to_vector<float>() ==
              all_of(1 + i % 50, static_cast<float>(3 * i)));
    }
  });
}

TEST_CASE("views are reduced in place, whether they are contiguous or not") {
  run_local(2, {}, [](Communicator& comm) {
    NDArray whole = zeros({4, 6}), column = whole.slice(1, {2, 4}), row = whole[1];
    column.fill(1);
    comm.all_reduce(column);
    comm.all_reduce(row);
    const std::vector<float> values = whole.to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool in_column = i % 6 == 2 || i % 6 == 3;
      REQUIRE(values[i] == (in_column ? (i / 6 == 1 ? 4 : 2) : 0));
    }
  });
}

TEST_CASE("a captured call is launched again and again") {
  run_local(2, {}, [](Communicator& comm) {
    NDArray data = floats(100);
    Graph step = comm.engine().capture([&] { comm.all_reduce(data); });
    for (int i = 0; i < 5; ++i) step.launch();
    REQUIRE(data.to_vector<float>() == all_of(100, 32));
  });
}

TEST_CASE("calls without the engine come after those with it") {
  for (std::size_t count : {1u, 1000u, 200'000u}) {
    run_local(2, {}, [&](Communicator& comm) {
      NDArray before = floats(10);
      comm.all_reduce(before);
      std::vector<float> data(count, 3);
      comm.all_reduce(data.data(), data.size(), DType::f32);
      REQUIRE(data == std::vector<float>(count, 6));
      REQUIRE(before.to_vector<float>() == all_of(10, 2));
    });
  }
}

TEST_CASE("shared arrays are arrays like others") {
  run_local(3, {}, [](Communicator& comm) {
    for (std::int64_t count : {1, 5000, 100'001}) {
      NDArray data = comm.shared_array({count});
      data.fill(comm.rank() + 1);
      comm.all_reduce(data);
      REQUIRE(data.to_vector<float>() == all_of(count, 6));
    }
  });
}

TEST_CASE("split by colour, ordered by key") {
  run_local(5, {}, [](Communicator& comm) {
    const int colour = comm.rank() == 4 ? -1 : comm.rank() % 2;
    const auto part = comm.split(colour, -comm.rank());
    REQUIRE((part == nullptr) == (colour < 0));
    if (part) {
      REQUIRE(part->size() == 2);
      REQUIRE(part->rank() == (comm.rank() < 2 ? 1 : 0));
      NDArray data = floats(10, static_cast<float>(comm.rank()));
      part->all_reduce(data);
      REQUIRE(data.to_vector<float>() == all_of(10, static_cast<float>(2 * colour + 2)));
    }
    NDArray data = floats(10);
    comm.all_reduce(data);
    REQUIRE(data.to_vector<float>() == all_of(10, 5));
  });
}

TEST_CASE("reductions have one result, whatever carries them and however they are cut") {
  // Numbers of very different magnitudes, so that every order of additions gives another rounded sum.
  const auto number = [](int rank, std::int64_t i) {
    return static_cast<float>((i * 37 + rank * 101) % 1009) * (i % 3 ? 1e-4f : 1e4f) /
           static_cast<float>(rank + 3);
  };
  for (int ranks : {2, 3, 4, 6, 8}) {
    std::vector<std::vector<float>> results;
    for (const char* algorithm : {"auto", "ring", "tree", "recursive_doubling", "halving_doubling"}) {
      run_local(ranks, {.algorithm = algorithm, .reproducible = true}, [&](Communicator& comm) {
        std::vector<float> values(30'000);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = number(comm.rank(), static_cast<std::int64_t>(i));
        NDArray large = array(values, {30'000}),
                small = array(std::vector<float>(values.begin(), values.begin() + 100), {100});
        comm.all_reduce(large);
        comm.all_reduce(small);
        const std::vector<float> all = large.to_vector<float>(), few = small.to_vector<float>();
        REQUIRE(std::vector<float>(all.begin(), all.begin() + 100) == few);
        if (comm.rank() == 0) results.push_back(all);
      });
    }
    for (const std::vector<float>& result : results) CHECK(result == results[0]);
  }
}

TEST_CASE("ranks that each have an even share of the parts give what one rank gives that has them all") {
  // Eight parts are added in a balanced tree: first those of each rank, then the ranks' sums.
  const auto part = [](int index, std::size_t i) {
    return static_cast<float>((i * 31 + static_cast<std::size_t>(index) * 17) % 997) * 1e-3f /
           static_cast<float>(index + 1);
  };
  const auto tree = [&](auto&& self, int begin, int count, std::size_t i) -> float {
    if (count == 1) return part(begin, i);
    return self(self, begin, count / 2, i) + self(self, begin + count / 2, count / 2, i);
  };
  std::vector<std::vector<float>> results;
  for (int ranks : {1, 2, 4, 8}) {
    run_local(ranks, {.reproducible = true}, [&](Communicator& comm) {
      std::vector<float> share(10'000);
      const int each = 8 / ranks;
      for (std::size_t i = 0; i < share.size(); ++i) share[i] = tree(tree, comm.rank() * each, each, i);
      NDArray data = array(share, {10'000});
      comm.all_reduce(data);
      const std::vector<float> all = data.to_vector<float>();
      if (comm.rank() == 0) results.push_back(all);
    });
  }
  for (const std::vector<float>& result : results) CHECK(result == results[0]);
}

TEST_CASE("on every scheduler") {
  for (const EngineOptions& options : {EngineOptions{.scheduler = Scheduler::threaded, .workers = 1},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 5}}) {
    Engine engine(options);
    run_local(2, {.engine = &engine}, [&](Communicator& comm) {
      EngineScope scope(engine);
      NDArray data = floats(10);
      for (int i = 0; i < 4; ++i) comm.all_reduce(data);
      REQUIRE(data.to_vector<float>() == all_of(10, 16));
    });
  }
}

TEST_CASE("arrays that nobody keeps are let go of while others are reduced") {
  constexpr int kCalls = kSanitized ? 10'000 : 100'000;
  run_local(2, {}, [](Communicator& comm) {
    NDArray last;
    for (int i = 0; i < kCalls; ++i) {
      NDArray one({4});
      one.fill(static_cast<float>(i));
      comm.all_reduce(one);
      last = one;
    }
    CHECK(last.to_vector<float>()[3] == 2.0F * (kCalls - 1));
  });
}

namespace {

// Reads the first element in an op, so that the engine sees no thread that waits.
float first_of(Engine& engine, const NDArray& data) {
  std::promise<float> seen;
  engine.push([&, at = data.detach()] { seen.set_value(*at.data<const float>()); }, {.read = {data.var()}});
  return seen.get_future().get();
}

void call_unawaited_among_awaited(Communicator& comm) {
  const NDArray data = floats(3);
  float expected = 1;
  for (int round = 0; round < 150; ++round) {
    for (int i = 0; i < round % 7; ++i) {
      comm.all_reduce(data, ReduceOp::avg);
      data.wait();
    }
    Gate gate(comm.engine());
    if (round % 2 == 1) gate.hold(data);  // `data` becomes ready only after the call
    comm.all_reduce(data);
    gate.open();
    expected *= 2;
    REQUIRE(first_of(comm.engine(), data) == expected);
    if (expected > 1e6F) {
      data.fill(1);
      expected = 1;
    }
  }
}

bool somebody_else_runs_ops() { return current_engine().options().scheduler == Scheduler::threaded; }

}  // namespace

TEST_CASE(
    "calls that nobody waits for go on by themselves, also after many that were carried by who waited") {
  if (!somebody_else_runs_ops()) return;
  run_local(2, {}, call_unawaited_among_awaited);
}

TEST_CASE("calls that nobody waits for go on by themselves where all threads share one core") {
  if (!somebody_else_runs_ops()) return;
  on_one_core([] { run_local(2, {}, call_unawaited_among_awaited); });
}

TEST_CASE("who waits for one array does not wait for calls behind it") {
  run_local(2, {}, [](Communicator& comm) {
    NDArray early = floats(4), late = floats(4);
    Gate gate(comm.engine());
    gate.hold(late);
    comm.all_reduce(early);
    comm.all_reduce(late);
    REQUIRE(early.to_vector<float>() == all_of(4, 2));
    gate.open();
    REQUIRE(late.to_vector<float>() == all_of(4, 2));
  });
}

TEST_CASE(
    "a captured call whose input fails now and then says so each time, however soon it is launched again") {
  run_local(2, {}, [](Communicator& comm) {
    constexpr int kLaunches = 60;
    std::atomic<int> launch = 0;  // only ops that run one after the other change it
    const NDArray data = floats(4);
    data.wait();
    const bool fails = comm.rank() == 0;
    Graph graph = comm.engine().capture([&] {
      comm.engine().push(
          [&, at = data.detach()] {
            if (++launch % 2 == 0 && fails) throw std::runtime_error("out of wool");
            std::fill_n(at.data<float>(), 4, static_cast<float>(launch));
          },
          {.mutate = {data.var()}});
      comm.all_reduce(data);
    });
    std::vector<std::string> seen(kLaunches);
    for (int i = 0; i < kLaunches; ++i) {
      graph.launch();
      if (fails && i % 3 != 0) continue;  // rank 0 waits only for every third launch, so it runs ahead
      try {
        data.wait();
        seen[static_cast<std::size_t>(i)] = std::to_string(data.to_vector<float>()[0]);
      } catch (const std::exception& error) {
        seen[static_cast<std::size_t>(i)] = error.what();
      }
    }
    try {
      data.wait();
    } catch (const std::runtime_error&) {
    }
    if (fails) return;
    for (int i = 0; i < kLaunches; ++i) {
      const std::string& one = seen[static_cast<std::size_t>(i)];
      CAPTURE(i);
      if (i % 2 == 1) {
        CHECK(one.find("out of wool") != std::string::npos);
      } else {
        CHECK(one == std::to_string(static_cast<float>(2 * (i + 1))));
      }
    }
  });
}
