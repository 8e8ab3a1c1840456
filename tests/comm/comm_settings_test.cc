// If the ranks' options for a communicator contradict each other, each rank gets an error that names the
// options that differ, before anything else is exchanged.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>

#include "files.h"
#include "ranks.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Creates a communicator whose rank i passes options[i]. Returns the error of each rank.
Outcomes create_with(const std::vector<CommOptions>& options) {
  const TemporaryDirectory directory;
  const int size = static_cast<int>(options.size());
  return on_threads(size, [&](int rank) {
    LaunchEnvironment job;
    job.rank = job.local_rank = rank;
    job.size = job.local_size = size;
    job.rendezvous = "unix:" + directory.file("ranks");
    Communicator::create(options[static_cast<std::size_t>(rank)], job);
  });
}

void check_all(const Outcomes& outcomes, const std::string& kind, const std::string& text) {
  for (const std::exception_ptr& outcome : outcomes) {
    CHECK(kind_of(outcome) == kind);
    CHECK(text_of(outcome) == text);
  }
}

}  // namespace

TEST_CASE("ranks that want different back ends are told which rank wants which") {
  check_all(create_with({{.backend = "auto"}, {.backend = "tcp"}, {.backend = "auto"}, {.backend = "tpc"}}),
            "CommMismatch",
            "the ranks want different back ends: ranks 0, 2 want auto, rank 1 wants tcp, rank 3 wants tpc; "
            "HEDDLE_COMM_BACKEND and CommOptions::backend must be the same on all ranks");
  for (const char* first : {"auto", "shm", "tcp"}) {
    for (const char* second : {"shm", "tcp", "mpi", "nccl"}) {
      const bool same = std::string(first) == second;
      for (const auto& outcome : create_with({{.backend = first}, {.backend = second}}))
        CHECK(kind_of(outcome) == (same ? "nothing" : "CommMismatch"));
    }
  }
}

TEST_CASE("so are those that want different algorithms, or that only one of them adds in one order") {
  check_all(create_with({{.algorithm = "ring"}, {.algorithm = "tree"}}), "CommMismatch",
            "the ranks want different algorithms: rank 0 wants ring, rank 1 wants tree; "
            "HEDDLE_COMM_ALGORITHM and CommOptions::algorithm must be the same on all ranks");
  check_all(
      create_with({{.backend = "tcp"}, {.backend = "tcp", .reproducible = true}}), "CommMismatch",
      "the ranks want different orders of reduction: rank 0 wants any, rank 1 wants the reproducible one; "
      "HEDDLE_COMM_REPRODUCIBLE and CommOptions::reproducible must be the same on all ranks");
}

TEST_CASE("a back end that nobody has is an error that says what there is") {
  for (const auto& outcome : create_with({{.backend = "tpc"}, {.backend = "tpc"}})) {
    CHECK(kind_of(outcome) == "InvalidArgument");
    CHECK(text_of(outcome).find("there is no communication backend 'tpc'; there is auto, ") !=
          std::string::npos);
  }
}
