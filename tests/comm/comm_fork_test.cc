// The child of a fork has no part in the parent's communicators: all its calls throw, and the parent's job
// continues.
#include <functional>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>

#include "files.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// ThreadSanitizer does not support threads in the child of a multi-threaded process.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadsInChild = false;
#else
constexpr bool kThreadsInChild = true;
#endif

constexpr unsigned kMostSeconds = 60;  // seconds after which a child that hangs is killed

using Call = std::function<void(Communicator&)>;

// Every public function that communicates. The arrays belong to the child's engine.
std::vector<Call> all_calls() {
  const std::vector<std::int64_t> counts{1, 1};
  return {
      [](Communicator& c) { c.all_reduce(zeros({2})); },
      [](Communicator& c) { c.all_reduce(zeros({2}), zeros({2})); },
      [](Communicator& c) { c.reduce_scatter(zeros({2}), zeros({1})); },
      [](Communicator& c) { c.all_gather(zeros({1}), zeros({2})); },
      [](Communicator& c) { c.broadcast(zeros({2}), 0); },
      [](Communicator& c) { c.reduce(zeros({2}), 0); },
      [](Communicator& c) { c.all_to_all(zeros({2}), zeros({2})); },
      [=](Communicator& c) { c.all_to_all(zeros({2}), counts, zeros({2}), counts); },
      [](Communicator& c) { c.send(zeros({2}), 1); },
      [](Communicator& c) { c.recv(zeros({2}), 1); },
      [](Communicator& c) { c.barrier(); },
      [](Communicator& c) { c.wait(); },
      [](Communicator& c) {
        float value = 1;
        c.all_reduce(&value, 1, DType::f32);
      },
      [](Communicator& c) { c.shared_array({2}); },
      [](Communicator& c) { c.split(0); },
      [](Communicator& c) { c.abort("the child has had enough"); },
      [](Communicator& c) { c.shrink(); },
      [](Communicator& c) { c.grow(); },
      [](Communicator& c) { c.flight_recorder(); },
  };
}

// Makes all calls in the child. Returns the child's exit status: 0: every call threw as it should; n: call
// number n did not; 100: anything else is wrong.
int call_all(std::shared_ptr<Communicator>& comm) {
  if (comm->rank() != 0 || comm->size() != 2 || comm->backend().empty() || comm->device() != cpu())
    return 100;
  const std::vector<Call> calls = all_calls();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    try {
      calls[i](*comm);
      return static_cast<int>(i) + 1;
    } catch (const CommError& error) {
      if (std::string(error.what()).find("belongs to the process that made it") == std::string::npos)
        return static_cast<int>(i) + 1;
    }
  }
  comm.reset();
  if (!kThreadsInChild) return 0;
  // A communicator that was created in the child works there.
  const auto own = Communicator::create_local(1)[0];
  const NDArray data = ones({4});
  own->all_reduce(data);
  return data.to_vector<float>() == std::vector<float>(4, 1) ? 0 : 100;
}

void check_alive(Communicator& comm) {
  const NDArray data = ones({5000});
  comm.all_reduce(data);
  if (data.to_vector<float>() != std::vector<float>(5000, 2)) throw Error("a wrong sum");
}

std::string end_of_child(std::shared_ptr<Communicator>& comm) {
  const pid_t child = fork();
  if (child != 0) return wait_for(child);
  alarm(kMostSeconds);
  try {
    _exit(call_all(comm));
  } catch (...) {
    _exit(101);
  }
}

void fork_in_job(const std::string& backend, int rank, const std::string& place) {
  LaunchEnvironment job;
  job.rank = job.local_rank = rank;
  job.size = job.local_size = 2;
  job.rendezvous = "unix:" + place;
  auto comm = Communicator::create({.backend = backend}, job);
  check_alive(*comm);
  if (rank == 0) {
    if (const std::string end = end_of_child(comm); !end.empty()) throw Error("the child ended with " + end);
  }
  check_alive(*comm);
}

void fork_among_threads() {
  auto ranks = Communicator::create_local(2);
  const auto all_alive = [&] {
    for (const auto& outcome :
         on_threads(2, [&](int rank) { check_alive(*ranks[static_cast<std::size_t>(rank)]); })) {
      if (outcome) std::rethrow_exception(outcome);
    }
  };
  all_alive();
  if (const std::string end = end_of_child(ranks[0]); !end.empty())
    throw Error("the child ended with " + end);
  all_alive();
}

}  // namespace

TEST_CASE("a fork's child is refused whatever it calls, on every back end, and the job goes on") {
  for (const std::string& backend : all_backends()) {
    CAPTURE(backend);
    const TemporaryDirectory directory;
    SharedTable table(2);
    const auto children = fork_ranks(table, backend == "local" ? 1 : 2, [&](int rank, SharedTable&) {
      backend == "local" ? fork_among_threads() : fork_in_job(backend, rank, directory.file("ranks"));
    });
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      CHECK(wait_for(children[rank]) == "");
      CHECK(table.said(static_cast<int>(rank)) == "");
    }
  }
}
