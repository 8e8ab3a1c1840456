#include <cstdio>
#include <string>
#include <sys/wait.h>

#include <doctest/doctest.h>

namespace {

struct Outcome {
  int status;
  std::string out;
};

Outcome doctor(const std::string& variables = "") {
  const std::string clean = "env -i PATH=/usr/bin:/bin ";
  FILE* pipe = ::popen((clean + variables + " '" HEDDLE_PROGRAM "' doctor 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string out;
  char buffer[1000];
  while (std::fgets(buffer, sizeof buffer, pipe)) out += buffer;
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("without a launcher there is a job of one, and everything is looked at") {
  const Outcome outcome = doctor();
  CHECK(outcome.status == 0);
  CHECK_FALSE(holds(outcome.out, "PROBLEM"));
  CHECK(holds(outcome.out, "rank 0 of 1, because no launcher's variables are set"));
  for (const char* subject : {"host name",   "interface", "tcp",        "security",      "ports",
                              "HEDDLE_COMM", "engine",    "congestion", "shared memory", "death of peers",
                              "/dev/shm",    "memlock",   "cores",      "NUMA",          "MPI",
                              "Slurm",       "ssh",       "CUDA",       "NCCL",          "linear algebra"}) {
    CAPTURE(subject);
    CHECK(holds(outcome.out, " " + std::string(subject) + " "));
  }
}

TEST_CASE("it says what there is for GPUs") {
  const std::string out = doctor("HEDDLE_EMULATED_GPU=devices=2,memory_mb=64").out;
  if (holds(out, "emulated, for tests")) {
    CHECK(holds(out, " gpu(1) "));
    CHECK(holds(out, "Heddle emulated GPU, compute capability 9.0, 64 MiB"));
    CHECK(holds(out, "reach each other's memory"));
    CHECK(holds(out, " cuBLASLt "));
  } else if (holds(out, "not in this build (cmake -DHEDDLE_CUDA=ON)")) {
    CHECK(holds(out, "libcuda.so.1"));
    CHECK_FALSE(holds(out, " gpu("));
  } else {
    CHECK(holds(out, "runtime "));
  }
}

TEST_CASE("it says what would be chosen, and why") {
  const Outcome chosen = doctor("HEDDLE_COMM_INTERFACE=lo HEDDLE_COMM_PORTS=7000-7010");
  CHECK(chosen.status == 0);
  CHECK(holds(chosen.out, "would listen on 127.0.0.1, because HEDDLE_COMM_INTERFACE is lo"));
  CHECK(holds(chosen.out, "7000 to 7010, because HEDDLE_COMM_PORTS says so"));
  const Outcome rank =
      doctor("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=5");
  CHECK(rank.status == 0);
  CHECK(holds(rank.out,
              "rank 1 of 2, number 1 of 2 on this host, says torchrun; they meet at unix:/tmp/heddle-"));
}

TEST_CASE("OpenBLAS with code for an old CPU is a note that names the variable") {
  const Outcome old = doctor("OPENBLAS_CORETYPE=Prescott");
  CHECK(old.status == 0);
  if (holds(old.out, "another BLAS") || !__builtin_cpu_supports("avx2")) return;
  CHECK(holds(old.out, "OpenBLAS takes this CPU for Prescott"));
  CHECK(holds(old.out, "with OPENBLAS_CORETYPE="));
  const Outcome chosen = doctor("OPENBLAS_CORETYPE=Haswell");
  CHECK(holds(chosen.out, "OpenBLAS with its code for Haswell"));
}

TEST_CASE("what would stop a job is a problem, and the exit code 1") {
  const std::pair<const char*, const char*> cases[] = {
      {"HEDDLE_RANK=3 HEDDLE_SIZE=2", "HEDDLE_RANK: got '3', want a number from 0 to 1"},
      {"HEDDLE_COMM_INTERFACE=nothing0", "'nothing0'"},
      {"HEDDLE_COMM_PORTS=9-8", "'9-8'"},
      {"HEDDLE_COMM_BACKEND=carrier", "there is no communication backend 'carrier'"},
      {"HEDDLE_COMM_TIMEOUT=-1", "HEDDLE_COMM_TIMEOUT is '-1'"},
      {"HEDDLE_COMM_TUNING=/no/such/file", "/no/such/file: cannot be read"},
      {"HEDDLE_WORKERS=-1", "HEDDLE_WORKERS: got '-1'"},
      {"HEDDLE_SCHEDULER=slow", "HEDDLE_SCHEDULER: got 'slow'"},
      {"HEDDLE_RANK=0 HEDDLE_SIZE=2 HEDDLE_RENDEZVOUS=tcp:a:5", "HEDDLE_COMM_INSECURE=1"},
  };
  for (const auto& [variables, wanted] : cases) {
    const Outcome outcome = doctor(variables);
    CHECK(outcome.status == 1);
    CHECK(holds(outcome.out, "PROBLEM"));
    CHECK(holds(outcome.out, wanted));
  }
}

TEST_CASE("what cannot be written to stdout is a failure") {
  for (const std::string command : {"--help", "operators", "doctor"}) {
    CAPTURE(command);
    FILE* pipe = ::popen(("'" HEDDLE_PROGRAM "' " + command + " 2>&1 >/dev/full").c_str(), "r");
    REQUIRE(pipe);
    std::string error;
    char buffer[1000];
    while (std::fgets(buffer, sizeof buffer, pipe)) error += buffer;
    CHECK(WEXITSTATUS(::pclose(pipe)) == 1);
    CHECK(error.find("heddle: cannot write to stdout: No space left on device") != std::string::npos);
  }
}
