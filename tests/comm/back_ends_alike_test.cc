// The same mistake gives the same error and text on all back ends.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>

#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Body = std::function<void(Communicator&)>;
using Counts = std::vector<std::int64_t>;

void reduce(Communicator& comm, std::int64_t count, ReduceOp op = ReduceOp::sum, DType dtype = DType::f32) {
  const NDArray data = zeros({count}, dtype);
  comm.all_reduce(data, op);
  data.wait();
}

void broadcast(Communicator& comm, std::int64_t count, int root) {
  const NDArray data = zeros({count});
  comm.broadcast(data, root);
  data.wait();
}

void reduce_to(Communicator& comm, std::int64_t count, int root) {
  const NDArray data = zeros({count});
  comm.reduce(data, root);
  comm.wait();
}

void gather(Communicator& comm, std::int64_t count) {
  const NDArray out = zeros({count * comm.size()});
  comm.all_gather(zeros({count}), out);
  out.wait();
}

void scatter(Communicator& comm, std::int64_t count) {
  const NDArray out = zeros({count});
  comm.reduce_scatter(zeros({count * comm.size()}), out);
  out.wait();
}

std::int64_t sum(const Counts& counts) {
  std::int64_t all = 0;
  for (const std::int64_t count : counts) all += count;
  return all;
}

// Calls all_to_all with these counts and waits for the result.
void exchange(Communicator& comm, const Counts& in_counts, const Counts& out_counts,
              DType dtype = DType::f32) {
  const NDArray out = zeros({sum(out_counts)}, dtype);
  comm.all_to_all(ones({sum(in_counts)}, dtype), in_counts, out, out_counts);
  out.wait();
}

void send(Communicator& comm, std::int64_t count, int to, DType dtype = DType::f32) {
  comm.send(zeros({count}, dtype), to);
  comm.wait();
}

void recv(Communicator& comm, std::int64_t count, int from, DType dtype = DType::f32) {
  const NDArray data = zeros({count}, dtype);
  comm.recv(data, from);
  data.wait();
}

void barrier(Communicator& comm) {
  comm.barrier();
  comm.wait();
}

void reduce_raw(Communicator& comm, std::size_t count) {
  std::vector<float> data(count, 1);
  comm.all_reduce(data.data(), count, DType::f32);
}

struct Mismatch {
  const char* name;
  Body first, second;  // what ranks 0 and 1 call
  const char* part;    // a text that the error must contain
};

const std::vector<Mismatch> kMismatches{
    {"count", [](auto& c) { reduce(c, 4); }, [](auto& c) { reduce(c, 5); },
     "rank 1 called all_reduce #1 sum f32 x 5"},
    {"large count", [](auto& c) { reduce(c, 60'000); }, [](auto& c) { reduce(c, 50'000); },
     "sum f32 x 60000"},
    {"count of a buffer", [](auto& c) { reduce_raw(c, 4); }, [](auto& c) { reduce_raw(c, 5); },
     "sum f32 x 5"},
    {"reduction", [](auto& c) { reduce(c, 4, ReduceOp::max); }, [](auto& c) { reduce(c, 4); },
     "all_reduce #1 max"},
    {"dtype", [](auto& c) { reduce(c, 4, ReduceOp::sum, DType::f64); }, [](auto& c) { reduce(c, 4); },
     "sum f64 x 4"},
    {"kind", [](auto& c) { broadcast(c, 4, 0); }, [](auto& c) { reduce(c, 4); },
     "rank 0 called broadcast #1"},
    {"barrier", [](auto& c) { barrier(c); }, [](auto& c) { gather(c, 4); }, "rank 0 called barrier #1"},
    {"root of a broadcast", [](auto& c) { broadcast(c, 4, 0); }, [](auto& c) { broadcast(c, 4, 1); },
     "root 1"},
    {"root of a reduction", [](auto& c) { reduce_to(c, 4, 0); }, [](auto& c) { reduce_to(c, 4, 1); },
     "root 1"},
    {"count of a broadcast", [](auto& c) { broadcast(c, 4, 0); }, [](auto& c) { broadcast(c, 9000, 0); },
     "f32 x 9000"},
    {"count of a gather", [](auto& c) { gather(c, 4); }, [](auto& c) { gather(c, 3); },
     "all_gather #1 f32 x 3"},
    {"count of a scatter", [](auto& c) { scatter(c, 4); }, [](auto& c) { scatter(c, 3); },
     "reduce_scatter #1 sum f32 x 3"},
    {"dtype of an exchange",
     [](auto& c) {
       exchange(c, {1, 1}, {1, 1});
     },
     [](auto& c) {
       exchange(c, {1, 1}, {1, 1}, DType::i32);
     },
     "i32 x 2"},
    {"more is sent than is waited for",
     [](auto& c) {
       exchange(c, {2, 4}, {2, 2});
     },
     [](auto& c) {
       exchange(c, {2, 2}, {2, 2});
     },
     " and sends rank 1 4 elements; rank 1 called all_to_all #1 f32 x 4"},
    {"less is sent than is waited for",
     [](auto& c) {
       exchange(c, {2, 2}, {2, 2});
     },
     [](auto& c) {
       exchange(c, {2, 2}, {100'000, 2});
     },
     " and waits for 100000 elements of rank 0"},
    {"nothing is sent",
     [](auto& c) {
       exchange(c, {3, 7}, {3, 0});
     },
     [](auto& c) {
       exchange(c, {1, 0}, {7, 0});
     },
     " and waits for 0 elements of rank 1"},
    {"length of a message", [](auto& c) { send(c, 4, 1); }, [](auto& c) { recv(c, 3, 0); },
     "rank 1 called recv #1 f32 x 3 from rank 0"},
    {"a shorter message", [](auto& c) { send(c, 4, 1); }, [](auto& c) { recv(c, 9000, 0); },
     "rank 0 called send #1 f32 x 4 to rank 1"},
    {"dtype of a message", [](auto& c) { send(c, 4, 1); }, [](auto& c) { recv(c, 4, 0, DType::i32); },
     "recv #1 i32 x 4"},
    {"both receive", [](auto& c) { recv(c, 4, 1); }, [](auto& c) { recv(c, 4, 0); },
     "ranks wait for each other in a cycle: rank 0 waits for rank 1 in recv #1"},
    {"both send much", [](auto& c) { send(c, 4'000'000, 1); }, [](auto& c) { send(c, 4'000'000, 0); },
     "ranks wait for each other in a cycle: rank 0 waits for rank 1 in send #1"},
    {"a message that is a barrier elsewhere", [](auto& c) { barrier(c); }, [](auto& c) { recv(c, 4, 0); },
     "rank 0 called barrier #1"},
};

// Rank 0 makes the first of two calls that do not match, and rank 1 the second. A rank may complete its call;
// it then gets the error in the barrier that follows.
Outcomes part(const std::string& backend, const CommOptions& options, const Mismatch& mismatch) {
  return try_job(backend, 2, options, [&](Communicator& comm) {
    comm.rank() == 0 ? mismatch.first(comm) : mismatch.second(comm);
    barrier(comm);
  });
}

}  // namespace

TEST_CASE("ranks that call different things get the same error on all back ends") {
  for (const Mismatch& mismatch : kMismatches) {
    for (const char* algorithm : {"auto", "ring"}) {
      CAPTURE(std::string(mismatch.name));
      std::set<std::string> texts;
      for (const std::string& backend : all_backends()) {
        CAPTURE(backend);
        for (const std::exception_ptr& outcome : part(backend, {.algorithm = algorithm}, mismatch)) {
          CHECK(kind_of(outcome) == "CommMismatch");
          texts.insert(text_of(outcome));
        }
      }
      const std::string first = texts.empty() ? "" : *texts.begin(),
                        last = texts.empty() ? "" : *texts.rbegin();
      CHECK(first == last);
      CAPTURE(first);
      CHECK(first.find(mismatch.part) != std::string::npos);
      CHECK(first.find("back_ends_alike_test.cc:") != std::string::npos);
    }
  }
}

TEST_CASE("of all ranks that exchange, the two between which lengths differ are named") {
  for (const std::string& backend : all_backends()) {
    CAPTURE(backend);
    const Outcomes outcomes = try_job(backend, 4, {}, [](Communicator& comm) {
      Counts in(4, 100), out(4, 100);
      if (comm.rank() == 1) in[3] = 99;
      exchange(comm, in, out);
      barrier(comm);
    });
    for (const std::exception_ptr& outcome : outcomes) {
      const std::string text = text_of(outcome);
      CAPTURE(text);
      CHECK(kind_of(outcome) == "CommMismatch");
      CHECK(text.find("rank 1 called all_to_all #1 f32 x 399 at ") != std::string::npos);
      CHECK(text.find(" and sends rank 3 99 elements; rank 3 called") != std::string::npos);
      CHECK(text.find(" and waits for 100 elements of rank 1") != std::string::npos);
    }
  }
}

TEST_CASE("ranks of split that exchange are told by their numbers there") {
  for (const std::string& backend : all_backends()) {
    CAPTURE(backend);
    const Outcomes outcomes = try_job(backend, 4, {}, [](Communicator& comm) {
      const auto half = comm.split(comm.rank() % 2);
      Counts in(2, 5), out(2, 5);
      exchange(*half, in, out);
      if (comm.rank() == 3) out[0] = 6;
      exchange(*half, in, out);
      barrier(*half);
    });
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      const std::string text = text_of(outcomes[rank]);
      CAPTURE(text);
      CHECK(kind_of(outcomes[rank]) == (rank % 2 ? "CommMismatch" : "nothing"));
      if (rank % 2) CHECK(text.find("waits for 6 elements of rank 0") != std::string::npos);
    }
  }
}

TEST_CASE("what a rank sends itself has to fit, and equal parts are of equal arrays") {
  for (const std::string& backend : all_backends()) {
    CAPTURE(backend);
    const Outcomes outcomes = try_job(backend, 2, {}, [](Communicator& comm) {
      const auto other = static_cast<std::size_t>(1 - comm.rank());
      Counts in(2, 3), out(2, 4);
      in[other] = out[other] = 1;
      CHECK_THROWS_WITH_AS(exchange(comm, in, out),
                           doctest::Contains("sends itself 3 elements and waits for 4 of itself"),
                           InvalidArgument);
      CHECK_THROWS_AS(comm.all_to_all(zeros({4}), zeros({8})), InvalidArgument);
      CHECK_THROWS_AS(comm.all_to_all(zeros({4}), NDArray()), InvalidArgument);
      barrier(comm);
    });
    for (const std::exception_ptr& outcome : outcomes) CHECK(text_of(outcome) == "");
  }
}

TEST_CASE("an abort has the same text on all back ends") {
  std::set<std::string> texts;
  for (const std::string& backend : all_backends()) {
    const Outcomes outcomes = try_job(backend, 2, {}, [](Communicator& comm) {
      if (comm.rank() == 1) comm.abort("enough");
      barrier(comm);
    });
    for (const std::exception_ptr& outcome : outcomes) {
      CHECK(kind_of(outcome) == "CommAborted");
      texts.insert(text_of(outcome));
    }
  }
  REQUIRE(texts.size() == 1);
  CHECK(texts.begin()->starts_with("rank 1 aborted: enough (abort at tests/comm/back_ends_alike_test.cc:"));
}

TEST_CASE("a buffer of a dtype that is none is refused on all back ends") {
  for (const std::string& backend : all_backends()) {
    CAPTURE(backend);
    for (const std::exception_ptr& outcome : try_job(backend, 2, {}, [](Communicator& comm) {
           float x = 1;
           CHECK_THROWS_WITH_AS(comm.all_reduce(&x, 1, static_cast<DType>(77)),
                                "Communicator::all_reduce: dtype is the number 77, which is none",
                                InvalidArgument);
         })) {
      CHECK(text_of(outcome) == "");
    }
  }
}

// Sanitizers end a program that requests that much memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("shared memory that the machine does not have is an OutOfMemory") {
  const auto comm = Communicator::create_local(1)[0];
  const auto use = [&] {
    NDArray array = comm->shared_array({std::int64_t{1} << 45});
    array.fill(1);
    array.wait();
  };
  CHECK_THROWS_AS(use(), OutOfMemory);
}
#endif
