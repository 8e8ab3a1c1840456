// Communicators on engines that run ops only in waits (fuzz) or inside pushes (naive).
#include <barrier>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>
#include <heddle/graph.h>

#include "arguments.h"
#include "files.h"
#include "gate.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Body = std::function<void(Communicator&)>;

constexpr int kRanks = 3;
constexpr std::uint64_t kSeeds = kSanitized ? 2 : 5;

// Runs `body` as each rank, on threads that share an engine with the scheduler fuzz. Does so on every back
// end.
void on_fuzz(const Body& body, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  for (const std::string& backend : all_backends()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      CAPTURE(backend);
      CAPTURE(seed);
      Engine engine({.scheduler = Scheduler::fuzz, .seed = seed});
      const CommOptions options{.timeout = timeout, .engine = &engine};
      const auto scoped = [&](Communicator& comm) {
        const EngineScope scope(engine);
        body(comm);
      };
      for (const std::exception_ptr& outcome : try_job(backend, kRanks, options, scoped))
        CHECK(text_of(outcome) == "");
    }
  }
}

NDArray floats(std::int64_t count, float value = 1) {
  return array(std::vector<float>(static_cast<std::size_t>(count), value), {count});
}

std::vector<float> of(std::int64_t count, int value) {
  return std::vector<float>(static_cast<std::size_t>(count), static_cast<float>(value));
}

// Starts reductions of arrays that ops compute, and does not wait for them. Returns the arrays.
std::vector<NDArray> pending(Communicator& comm) {
  std::vector<NDArray> all;
  for (const std::int64_t count : {4, 5000, 100'000}) {
    NDArray data = floats(count);
    data.assign(floats(count, 2));
    comm.all_reduce(data);
    all.push_back(data);
  }
  return all;
}

void check_pending(const std::vector<NDArray>& all, int ranks) {
  for (const NDArray& data : all) CHECK(data.to_vector<float>() == of(data.size(), 2 * ranks));
}

void check_raw(Communicator& comm, std::int64_t count) {
  std::vector<float> data = of(count, comm.rank() + 1);
  comm.all_reduce(data.data(), data.size(), DType::f32);
  CHECK(data == of(count, comm.size() * (comm.size() + 1) / 2));
}

}  // namespace

TEST_CASE("fuzz: a reduction of a buffer lets the engine run what comes before it") {
  on_fuzz([](Communicator& comm) {
    const auto before = pending(comm);
    check_raw(comm, 7);
    check_raw(comm, 60'000);
    const auto between = pending(comm);
    check_raw(comm, 1);
    check_pending(before, comm.size());
    check_pending(between, comm.size());
  });
}

TEST_CASE("fuzz: so does split, and what it makes works") {
  on_fuzz([](Communicator& comm) {
    const auto before = pending(comm);
    const auto part = comm.split(comm.rank() == 1 ? 1 : 0);
    const auto of_part = pending(*part);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(part->size()), 30);
    const NDArray out = zeros({30 * part->size()});
    part->all_to_all(floats(30 * part->size(), static_cast<float>(part->rank())), counts, out, counts);
    check_raw(*part, 5);
    check_pending(before, comm.size());
    check_pending(of_part, part->size());
    const std::vector<float> got = out.to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == static_cast<float>(i / 30));
  });
}

TEST_CASE("fuzz: a communicator that is destroyed ends the calls that it was given, as they were meant") {
  on_fuzz([](Communicator& comm) {
    const auto part = comm.split(0);
    std::shared_ptr<Communicator> turned = part->split(0, -comm.rank());
    const auto of_turned = pending(*turned);
    turned.reset();
    check_pending(of_turned, comm.size());
  });
}

TEST_CASE("fuzz: graphs, a poisoned input and the wire's var beside a reduction of a buffer") {
  on_fuzz([](Communicator& comm) {
    NDArray data = floats(10);
    const Graph step = comm.engine().capture([&] { comm.all_reduce(data, ReduceOp::max); });
    for (int i = 0; i < 3; ++i) step.launch();
    check_raw(comm, 3);
    CHECK(data.to_vector<float>() == of(10, 1));
    NDArray bad = floats(10);
    if (comm.rank() == 0) array_push("bad", {}, {bad}, [] { throw std::runtime_error("no data"); });
    comm.all_reduce(bad);
    check_raw(comm, 3);
    CHECK_THROWS(bad.wait());
    bool alone = false;
    comm.engine().push([&] { alone = true; }, {.mutate = {comm.var()}});
    check_raw(comm, 2);
    comm.wait();
    CHECK(alone);
  });
}

TEST_CASE("fuzz: survivors shrink with calls pending, and go on") {
  on_fuzz([](Communicator& comm) {
    const auto before = pending(comm);
    if (comm.rank() == 1) comm.abort("enough");
    for (const NDArray& data : before) {
      try {
        data.wait();
      } catch (const CommAborted&) {
      }
    }
    const auto rest = comm.shrink();
    const auto after = pending(*rest);
    check_raw(*rest, 9);
    check_pending(after, rest->size());
  });
}

TEST_CASE("fuzz: ranks of a job meet again with calls pending") {
  for (const std::string backend : {"shm", "tcp"}) {
    CAPTURE(backend);
    Engine engine({.scheduler = Scheduler::fuzz, .seed = 3});
    const Outcomes outcomes = try_job(backend, 2, {.timeout = std::chrono::seconds(60), .engine = &engine},
                                      [&](Communicator& comm) {
                                        const EngineScope scope(engine);
                                        const auto before = pending(comm);
                                        check_raw(comm, 4);
                                        check_pending(before, comm.size());
                                        const auto grown = comm.grow();
                                        const auto after = pending(*grown);
                                        check_raw(*grown, 4);
                                        check_pending(after, grown->size());
                                      });
    for (const std::exception_ptr& outcome : outcomes) CHECK(text_of(outcome) == "");
  }
}

TEST_CASE(
    "a reduction of a buffer that waits for its own op is refused, and does not touch the buffer later") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    const EngineScope scope(engine);
    const auto ranks = Communicator::create_local(2, {.engine = &engine});
    const auto comm = ranks[0];
    std::vector<float> data(4, 1);
    NDArray begin = floats(1), later = floats(4);
    Gate gate(engine);
    gate.hold(begin);
    const Var outcome = engine.new_var();
    engine.push([&] { CHECK_THROWS_AS(comm->all_reduce(data.data(), 4, DType::f32), WouldDeadlock); },
                {.read = {begin.var()}, .mutate = {comm->var(), outcome}});
    // Queued after the op that is not ready, since a call and that op both mutate comm->var().
    comm->all_reduce(later);
    std::thread other([&] {
      const EngineScope inner(engine);
      const NDArray same = floats(4);
      ranks[1]->all_reduce(same);
      same.wait();
      std::vector<float> refused(4, 1);
      CHECK_THROWS_WITH_AS(ranks[1]->all_reduce(refused.data(), 4, DType::f32),
                           doctest::Contains("could not wait for it"), RemoteFailure);
    });
    gate.open();
    engine.wait(outcome);
    data.assign(4, 2);
    later.wait();
    other.join();
    comm->wait();
    CHECK(data == of(4, 2));
  }
}

TEST_CASE("naive: ranks that are threads of one engine are refused, and told what to do") {
  Engine engine({.scheduler = Scheduler::naive});
  CHECK_THROWS_WITH_AS(
      Communicator::create_local(2, {.engine = &engine}),
      doctest::Contains(
          "the ranks share an engine whose scheduler is naive, which runs each op inside its push"),
      InvalidArgument);
  for (const std::string backend : {"shm", "tcp"}) {
    const Outcomes outcomes = try_job(backend, 2, {.engine = &engine}, [](Communicator&) {});
    for (const std::exception_ptr& outcome : outcomes) {
      CHECK(kind_of(outcome) == "InvalidArgument");
      CHECK(text_of(outcome).find("ranks 0 and 1 share an engine whose scheduler is naive") !=
            std::string::npos);
    }
  }
}

TEST_CASE("ranks that are threads of one bounded engine are refused") {
  for (const EngineOptions& options : {EngineOptions{.max_ops = 3}, EngineOptions{.max_bytes = 1 << 20}}) {
    Engine engine(options);
    CHECK_THROWS_WITH_AS(Communicator::create_local(2, {.engine = &engine}),
                         doctest::Contains("the ranks share an engine that bounds its ops"), InvalidArgument);
    CHECK(Communicator::create_local(1, {.engine = &engine}).size() == 1);
    for (const std::exception_ptr& outcome : try_job("shm", 2, {.engine = &engine}, [](Communicator&) {})) {
      CHECK(kind_of(outcome) == "InvalidArgument");
      CHECK(text_of(outcome).find("ranks 0 and 1 share an engine that bounds its ops") != std::string::npos);
    }
  }
}

TEST_CASE("a blocking call inside an op that a call before it needs is refused") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::fuzz}) {
    for (const bool splits : {false, true}) {
      Engine engine({.scheduler = scheduler, .workers = 1});
      const EngineScope scope(engine);
      const auto comm = Communicator::create_local(1, {.engine = &engine})[0];
      NDArray a = floats(2);
      const auto call = [&] {
        float x = 1;
        splits ? static_cast<void>(comm->split(0, 0)) : comm->all_reduce(&x, 1, DType::f32);
      };
      Gate gate(engine);
      gate.hold(a);
      engine.push([&] { CHECK_THROWS_AS(call(), WouldDeadlock); }, {.mutate = {a.var()}});
      comm->all_reduce(a);
      gate.open();
      a.wait();
      CHECK_NOTHROW(call());
    }
  }
}

TEST_CASE("a blocking call that is refused behind a call that its op holds up fails on the other ranks too") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    const auto ranks = Communicator::create_local(2, {.engine = &engine});
    const EngineScope scope(engine);
    NDArray a = floats(2);
    Gate gate(engine);
    gate.hold(a);
    float x = 1;
    engine.push([&] { CHECK_THROWS_AS(ranks[0]->all_reduce(&x, 1, DType::f32), WouldDeadlock); },
                {.mutate = {a.var()}});
    ranks[0]->all_reduce(a);
    std::thread other([&] {
      const EngineScope inner(engine);
      const NDArray same = floats(2);
      ranks[1]->all_reduce(same);
      float refused = 1;
      CHECK_THROWS_WITH_AS(ranks[1]->all_reduce(&refused, 1, DType::f32),
                           doctest::Contains("could not wait for it"), RemoteFailure);
      CHECK(same.to_vector<float>() == of(2, 2));
    });
    gate.open();
    CHECK(a.to_vector<float>() == of(2, 2));
    other.join();
    CHECK(x == 1);
  }
}

TEST_CASE("blocking calls inside ops of ranks that share a worker") {
  Engine engine({.workers = 1});
  const auto ranks = Communicator::create_local(2, {.engine = &engine});
  const Var own[2] = {engine.new_var(), engine.new_var()};
  float sums[2] = {1, 2};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    engine.push([&, rank] { ranks[rank]->all_reduce(&sums[rank], 1, DType::f32); }, {.mutate = {own[rank]}});
  }
  for (const Var& var : own) engine.wait(var);
  CHECK(sums[0] == 3);
  CHECK(sums[1] == 3);
}

TEST_CASE("naive: ranks with an engine each do all that others do") {
  for (const std::string backend : {"shm", "tcp"}) {
    CAPTURE(backend);
    const TemporaryDirectory directory;
    std::barrier all_have_waited(kRanks);
    const Outcomes outcomes = on_threads(kRanks, [&](int rank) {
      Engine engine({.scheduler = Scheduler::naive});
      const EngineScope scope(engine);
      LaunchEnvironment job;
      job.rank = job.local_rank = rank;
      job.size = job.local_size = kRanks;
      job.rendezvous = "unix:" + directory.file("ranks");
      const auto comm = Communicator::create({.backend = backend}, job);
      const auto before = pending(*comm);
      check_raw(*comm, 5000);
      const auto part = comm->split(rank % 2);
      check_pending(pending(*part), part->size());
      NDArray data = floats(10);
      const Graph step = engine.capture([&] { comm->all_reduce(data, ReduceOp::max); });
      step.launch();
      check_raw(*comm, 3);
      check_pending(before, comm->size());
      comm->barrier();
      comm->wait();
      all_have_waited.arrive_and_wait();
      if (rank == 1) comm->abort("enough");
      CHECK_THROWS_AS(check_raw(*comm, 3), CommAborted);
      const auto rest = comm->shrink();
      check_raw(*rest, 3);
    });
    for (const std::exception_ptr& outcome : outcomes) CHECK(text_of(outcome) == "");
  }
}

TEST_CASE("naive: one rank alone may share its engine") {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  const auto comm = Communicator::create_local(1, {.engine = &engine})[0];
  check_pending(pending(*comm), 1);
  check_raw(*comm, 3);
  CHECK(comm->split(0)->size() == 1);
}
