// The back end nccl on a replacement for NCCL (host_nccl.h): tests what the back end decides, not NCCL. Ranks
// are threads or processes. The device of rank i is cpu(i + 1).
#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/communicator.h>
#include <heddle/graph.h>

#include "files.h"
#include "host_nccl.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

using Body = std::function<void(Communicator&)>;

NDArray on(const Communicator& comm, std::int64_t count, double value, DType dtype = DType::f32) {
  return full({count}, value, dtype, comm.device());
}

std::vector<float> of(std::size_t count, double value) {
  return std::vector<float>(count, static_cast<float>(value));
}

void reduce_now(Communicator& comm, std::int64_t count = 4, ReduceOp op = ReduceOp::sum) {
  const NDArray data = on(comm, count, 1);
  comm.all_reduce(data, op);
  data.wait();
}

NDArray failed_on(const Communicator& comm, std::int64_t count) {
  const NDArray data = on(comm, count, 1);
  array_push("bad", {}, {data}, [](RunContext&) { throw std::runtime_error("the data are spoilt"); });
  return data;
}

std::exception_ptr outcome_of(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// Runs `body` as each rank on the back end nccl, like try_job, but with a separate engine for each rank.
void on_engines(int size, const EngineOptions& kind, const Body& body) {
  const TemporaryDirectory directory;
  const Outcomes outcomes = on_threads(size, [&](int rank) {
    Engine engine(kind);
    const EngineScope scope(engine);
    CommOptions options{.backend = "nccl"};
    options.engine = &engine;
    body(*Communicator::create(options, {rank, size, rank, size, "unix:" + directory.file("ranks")}));
  });
  for (const std::exception_ptr& error : outcomes) CHECK(text_of(error) == "");
}

bool names(const std::exception_ptr& error, const std::string& kind, const std::string& text) {
  return kind_of(error) == kind && text_of(error).find(text) != std::string::npos;
}

void check_all(const Outcomes& outcomes, const std::string& kind, const std::string& text) {
  for (const std::exception_ptr& error : outcomes) {
    CHECK(names(error, kind, text));
    if (!names(error, kind, text)) MESSAGE((error ? kind_of(error) + ": " + text_of(error) : "nothing"));
  }
}

// Makes each kind of call, on arrays that ops have computed before and that other ops use afterwards.
void call_all(Communicator& comm, DType dtype) {
  const int rank = comm.rank(), size = comm.size();
  const auto p = static_cast<std::size_t>(size);
  const auto at = [&](int value) { return on(comm, 3, value, dtype); };
  const auto is = [](const NDArray& data, const std::vector<float>& want) {
    return data.astype(DType::f32).to_vector<float>() == want;
  };
  const double sum = size * (size + 1) / 2;
  NDArray data = at(rank + 1);
  comm.all_reduce(data);
  CHECK(is(data, of(3, sum)));
  NDArray out = at(0);
  comm.all_reduce(at(rank + 1), out, ReduceOp::max);
  CHECK(is(out, of(3, size)));
  comm.all_reduce(at(2), out, ReduceOp::prod);
  CHECK(is(out, of(3, 1 << size)));
  comm.all_reduce(at(rank + 1), out, ReduceOp::min);
  CHECK(is(out, of(3, 1)));
  comm.all_reduce(at(2 * rank), out, ReduceOp::avg);
  CHECK(is(out, of(3, size - 1)));
  data = at(rank + 1);
  comm.broadcast(data, size - 1);
  CHECK(is(data, of(3, size)));
  data = at(rank + 1);
  comm.reduce(data, 0);
  CHECK(is(data, of(3, rank == 0 ? sum : rank + 1)));
  NDArray all = on(comm, 3 * size, 0, dtype);
  comm.all_gather(at(rank), all);
  std::vector<float> want;
  for (int other = 0; other < size; ++other) want.insert(want.end(), 3, static_cast<float>(other));
  CHECK(is(all, want));
  comm.reduce_scatter(all, out);
  CHECK(is(out, of(3, rank * size)));
  NDArray swapped = on(comm, 3 * size, 0, dtype);
  comm.all_to_all(all, swapped);
  want.assign(3 * p, static_cast<float>(rank));
  CHECK(is(swapped, want));
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  if (rank == 0) comm.send(at(rank), next);
  comm.recv(out, before);
  if (rank != 0) comm.send(at(rank), next);
  CHECK(is(out, of(3, before)));
}

}  // namespace

// This test case comes first, since ThreadSanitizer supports the forks only before this process has had
// threads.
TEST_CASE("nccl: a rank whose process is killed is lost to those who wait for it; they shrink and go on") {
  SharedTable table(3);
  const TemporaryDirectory directory;
  const auto children = fork_ranks(table, 3, [&](int rank, SharedTable& shared) {
    HostNccl library;
    library.alone = true;  // processes cannot join each other here, so collectives end only by abort()
    LaunchEnvironment job{rank, 3, rank, 3, "unix:" + directory.file("ranks")};
    const auto comm = Communicator::create({.backend = "nccl"}, job);
    NDArray data = on(*comm, 4, 1);
    comm->all_reduce(data);
    while (library.starts == 0) std::this_thread::yield();
    shared.rendezvous(rank)->all_gather("started");
    if (rank == 1) raise(SIGKILL);
    const auto error = outcome_of([&] { data.wait(); });
    const auto rest = comm->shrink();
    float raw = 1;
    // An array in the host's memory, so this call goes over the network.
    rest->all_reduce(&raw, 1, DType::f32);
    shared.say(rank, kind_of(error) + " " + std::to_string(library.aborts) + " " +
                         std::to_string(rest->size()) + " " + std::to_string(raw));
  });
  CHECK(wait_for(children[1]) == "signal 9");
  for (const std::size_t rank : {0, 2}) {
    CHECK(wait_for(children[rank]) == "");
    CHECK(table.said(static_cast<int>(rank)) == "PeerLost 1 2 2.000000");
  }
}

TEST_CASE("nccl: every call, on the device's arrays") {
  HostNccl library;
  for (const int size : {1, 2, 3}) {
    CAPTURE(size);
    run_job("nccl", size, {}, [](Communicator& comm) {
      CHECK(comm.backend() == "nccl");
      CHECK(comm.device() == cpu(comm.rank() + 1));
      for (const DType dtype :
           {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::f16, DType::bf16, DType::i8})
        call_all(comm, dtype);
      comm.wait();
    });
  }
  CHECK(library.aborts == 0);
}

TEST_CASE("nccl: bools, unequal parts, views, and nothing at all") {
  HostNccl library;
  run_job("nccl", 3, {}, [](Communicator& comm) {
    const int rank = comm.rank();
    const auto reduced = [&](bool mine, ReduceOp op) {
      NDArray flag = on(comm, 2, mine, DType::boolean);
      comm.all_reduce(flag, op);
      return flag.to_vector<bool>();
    };
    CHECK(reduced(rank == 1, ReduceOp::sum) == std::vector<bool>{true, true});
    CHECK(reduced(rank == 1, ReduceOp::max) == std::vector<bool>{true, true});
    CHECK(reduced(rank == 1, ReduceOp::prod) == std::vector<bool>{false, false});
    CHECK(reduced(true, ReduceOp::min) == std::vector<bool>{true, true});
    // Rank r sends r elements to each rank, and so receives 0, 1 and 2 elements.
    const NDArray in = on(comm, 3 * rank, rank), out = on(comm, 3, -1);
    const std::vector<std::int64_t> sent(3, rank), received{0, 1, 2};
    comm.all_to_all(in, sent, out, received);
    CHECK(out.to_vector<float>() == std::vector<float>{1, 2, 2});
    // Reduces a view in the middle of an array.
    const NDArray whole = on(comm, 6, rank);
    comm.all_reduce(whole.slice(0, {2, 4}));
    const auto r = static_cast<float>(rank);
    CHECK(whole.to_vector<float>() == std::vector<float>{r, r, 3, 3, r, r});
    comm.all_reduce(on(comm, 0, 0));
    comm.wait();
  });
}

TEST_CASE("nccl: calls on the device and calls over the network keep the program's order") {
  HostNccl library;
  for (const int workers : {1, 4}) {
    on_engines(2, {.workers = workers}, [](Communicator& comm) {
      NDArray there = on(comm, 1000, 1), here = ones({1000});
      for (int step = 0; step < 10; ++step) {
        comm.all_reduce(there);
        comm.all_reduce(here);
        float raw = 1;
        if (step % 4 == 0) comm.all_reduce(&raw, 1, DType::f32);
        CHECK(raw == (step % 4 == 0 ? 2 : 1));
        if (step % 3 == 0) comm.barrier();
        there.assign(here.copy_to(comm.device()));
      }
      CHECK(there.to_vector<float>() == of(1000, 1024));
      CHECK(here.to_vector<float>() == of(1000, 1024));
    });
  }
}

TEST_CASE("nccl: a thread for all, and none but the caller's") {
  HostNccl library;
  const auto body = [](Communicator& comm) { call_all(comm, DType::f32); };
  on_engines(2, {.scheduler = Scheduler::threaded, .workers = 1}, body);
  on_engines(2, {.scheduler = Scheduler::naive}, body);
}

TEST_CASE("nccl: ranks that call different things all hear of it, and of both") {
  HostNccl library;
  struct Odd {
    const char* name;
    Body odd, even;
  };
  const auto usual = [](Communicator& c) { reduce_now(c); };
  const std::vector<Odd> all{
      {"count", [](Communicator& c) { reduce_now(c, 5); }, usual},
      {"op", [](Communicator& c) { reduce_now(c, 4, ReduceOp::max); }, usual},
      {"kind",
       [](Communicator& c) {
         const NDArray data = on(c, 4, 1);
         c.broadcast(data, 0);
         data.wait();
       },
       usual},
      {"network",
       [](Communicator& c) {
         const NDArray data = ones({4});
         c.all_reduce(data);
         data.wait();
       },
       usual},
      {"barrier",
       [](Communicator& c) {
         c.barrier();
         c.wait();
       },
       usual},
  };
  for (const Odd& pair : all) {
    CAPTURE(pair.name);
    const Outcomes outcomes = try_job("nccl", 3, {}, [&](Communicator& comm) {
      reduce_now(comm);
      (comm.rank() == 1 ? pair.odd : pair.even)(comm);
    });
    check_all(outcomes, "CommMismatch", "rank 1 called ");
    check_all(outcomes, "CommMismatch", "on its device at ");
  }
  CHECK(library.aborts >= 10);  // in each job every rank that had started a collective aborts
}

TEST_CASE("nccl: calls that differ and fit by chance are found as well") {
  HostNccl library;
  library.careless = true;
  const Outcomes outcomes = try_job("nccl", 2, {}, [](Communicator& comm) {
    reduce_now(comm, 4, comm.rank() == 0 ? ReduceOp::sum : ReduceOp::max);
    for (const auto end = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < end;)
      reduce_now(comm);
  });
  check_all(outcomes, "CommMismatch", "the ranks do not call the same: rank 0 called all_reduce #");
}

TEST_CASE("nccl: an op that has failed ends the communicator on all ranks, and shrink makes a new one") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [](Communicator& comm) {
    const NDArray data = comm.rank() == 2 ? failed_on(comm, 4) : on(comm, 4, 1);
    comm.all_reduce(data);
    const auto first = outcome_of([&] { data.wait(); });
    const auto second = outcome_of([&] { reduce_now(comm); });
    const bool own = comm.rank() == 2;
    CHECK(names(first, own ? "another exception" : "CommAborted", "the data are spoilt"));
    CHECK(names(second, "CommAborted", "rank 2 has no data for all_reduce #1 sum f32 x 4 on its device"));
    const auto rest = comm.shrink();
    CHECK(rest->device() == comm.device());
    call_all(*rest, DType::f32);
  });
  check_all(outcomes, "nothing", "");
}

TEST_CASE("nccl: what its own library says goes to all ranks") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [&](Communicator& comm) {
    reduce_now(comm);
    comm.barrier();
    comm.wait();
    if (comm.rank() == 0) library.sick_rank = 1;
    // Reductions that had started may still complete, but later ones fail.
    for (int i = 0; i < 4; ++i) reduce_now(comm);
  });
  for (const int rank : {0, 2})
    CHECK(names(outcomes[static_cast<std::size_t>(rank)], "CommAborted", "rank 1 failed in "));
  for (const std::exception_ptr& error : outcomes)
    CHECK(text_of(error).find("a cable has come loose") != std::string::npos);
}

TEST_CASE("nccl: abort ends what waits on all ranks") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [](Communicator& comm) {
    reduce_now(comm);
    if (comm.rank() == 1) comm.abort("enough");
    if (comm.rank() != 1) reduce_now(comm);
    reduce_now(comm);
  });
  check_all(outcomes, "CommAborted", "enough");
}

TEST_CASE("nccl: who leaves is lost to those who call it again, and to nobody else") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [](Communicator& comm) {
    for (int i = 0; i < 3; ++i) reduce_now(comm);
    if (comm.rank() != 2) reduce_now(comm);
  });
  CHECK(kind_of(outcomes[2]) == "nothing");
  for (const std::size_t rank : {0, 1})
    CHECK(names(outcomes[rank], "PeerLost", "rank 2 left the communicator while rank "));
}

TEST_CASE("nccl: split and shrink keep the device of each rank") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 0 ? 0 : 1, -comm.rank());
    CHECK(part->backend() == "nccl");
    CHECK(part->device() == comm.device());
    CHECK(part->size() == (comm.rank() == 0 ? 1 : 2));
    call_all(*part, DType::i32);
    reduce_now(comm);
  });
  check_all(outcomes, "nothing", "");
}

TEST_CASE("nccl: a rank that fails in split leaves nobody waiting, and the ranks go on") {
  HostNccl library;
  const Outcomes outcomes = try_job("nccl", 3, {}, [&](Communicator& comm) {
    comm.barrier();
    comm.wait();
    // Makes split fail on rank 0, which creates the id for all ranks.
    if (comm.rank() == 0) library.no_ids = true;
    const std::exception_ptr error = outcome_of([&] { comm.split(0); });
    CHECK(text_of(error) == (comm.rank() == 0 ? "no more ids" : "split: rank 0 could not: no more ids"));
    if (comm.rank() == 0) library.no_ids = false;
    CHECK(comm.split(0)->size() == 3);
    reduce_now(comm);
  });
  check_all(outcomes, "nothing", "");
}

TEST_CASE("nccl: each rank needs a device of its own, and all hear which has none") {
  const auto make = [](int gpu) {
    return try_job("nccl", 2, {.gpu = gpu}, [](Communicator& comm) { reduce_now(comm); });
  };
  {
    HostNccl library(0);
    check_all(make(-1), "CommError", "needs a GPU for each rank; rank 0: it has no GPU");
  }
  {
    HostNccl library(1);
    check_all(make(-1), "CommError", "rank 0 and rank 1 have the same one, cpu(1)");
    check_all(make(1), "CommError", "rank 0: it is to use gpu(1) and has 1");
  }
  {
    HostNccl library(2);
    library.one_place = true;
    check_all(make(-1), "CommError", "rank 0 and rank 1 have the same one, slot");
    CHECK_THROWS_WITH_AS(make(-2).at(0) ? std::rethrow_exception(make(-2)[0]) : void(),
                         "CommOptions: gpu is -2; want a GPU's number, or -1", InvalidArgument);
  }
}

TEST_CASE("nccl: arrays that it cannot take are refused at the call") {
  HostNccl library;
  run_job("nccl", 1, {}, [](Communicator& comm) {
    const NDArray here = ones({4}), there = on(comm, 4, 1), grid = full({4, 4}, 1, DType::f32, comm.device());
    CHECK_THROWS_WITH_AS(comm.all_reduce(here, there),
                         "Communicator::all_reduce: the input is on cpu(0), the output is on cpu(1)",
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(
        comm.broadcast(grid.permuted({1, 0}), 0),
        "Communicator::broadcast: array is not contiguous, which arrays on cpu(1) have to be",
        InvalidArgument);
    CHECK_THROWS_AS(comm.all_reduce(on(comm, 4, 0, DType::boolean), ReduceOp::avg), InvalidArgument);
    Engine& engine = comm.engine();
    CHECK_THROWS_AS(engine.capture([&] { comm.all_reduce(there); }), Error);
    comm.all_reduce(there);
    CHECK(there.to_vector<float>() == of(4, 1));
  });
}
