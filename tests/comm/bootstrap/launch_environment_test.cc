#include <fstream>
#include <map>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/launch_environment.h>

#include "bootstrap/ancestor.h"
#include "bootstrap/host_list.h"

using namespace heddle;

namespace {

using Variables = std::map<std::string, std::string>;

LaunchEnvironment job_of(const Variables& variables) {
  return LaunchEnvironment::from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string complaint(const Variables& variables) {
  try {
    job_of(variables);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Variables kHeddle{{"HEDDLE_RANK", "1"},
                        {"HEDDLE_SIZE", "4"},
                        {"HEDDLE_LOCAL_RANK", "1"},
                        {"HEDDLE_LOCAL_SIZE", "2"},
                        {"HEDDLE_RENDEZVOUS", "tcp:a:1"}};
const Variables kTorch{{"RANK", "2"},           {"WORLD_SIZE", "6"},
                       {"LOCAL_RANK", "0"},     {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_MCA_ess_base_jobid", "1234"}};
const Variables kPmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"HEDDLE_RENDEZVOUS", "tcp:b:2"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "5"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "77"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                       {"SLURM_STEP_NODELIST", "node[08-10],x"}};
const Variables kDmlc{{"DMLC_ROLE", "worker"},
                      {"DMLC_WORKER_ID", "1"},
                      {"DMLC_NUM_WORKER", "3"},
                      {"DMLC_PS_ROOT_URI", "10.0.0.1"},
                      {"DMLC_PS_ROOT_PORT", "9000"}};
const Variables kPod{{"HEDDLE_SERVICE", "train"}, {"HEDDLE_REPLICAS", "4"}, {"HOSTNAME", "my-job-2"}};

}  // namespace

TEST_CASE("a program that nobody launched is a job of one") {
  for (const Variables& variables : {Variables{}, Variables{{"HOSTNAME", "a-1"}, {"MASTER_ADDR", "a"}}}) {
    const LaunchEnvironment job = job_of(variables);
    CHECK(job.rank == 0);
    CHECK(job.size == 1);
    CHECK(job.rendezvous.empty());
    CHECK(job.source == "alone");
  }
}

TEST_CASE("heddle launch says everything") {
  const LaunchEnvironment job = job_of(kHeddle);
  CHECK(job.rank == 1);
  CHECK(job.size == 4);
  CHECK(job.local_rank == 1);
  CHECK(job.local_size == 2);
  CHECK(job.rendezvous == "tcp:a:1");
  CHECK(job.source == "HEDDLE_RANK");
}

TEST_CASE("ranks that meet at a unix socket are on one host") {
  const LaunchEnvironment job =
      job_of({{"HEDDLE_RANK", "1"}, {"HEDDLE_SIZE", "3"}, {"HEDDLE_RENDEZVOUS", "unix:/tmp/a"}});
  CHECK(job.local_rank == 1);
  CHECK(job.local_size == 3);
}

TEST_CASE("torchrun's variables") {
  LaunchEnvironment job = job_of(kTorch);
  CHECK(job.rank == 2);
  CHECK(job.size == 6);
  CHECK(job.local_rank == 0);
  CHECK(job.local_size == 2);
  CHECK(job.rendezvous == "tcp:head:29500");
  CHECK(job.source == "torchrun");
  CHECK(job_of(with(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).rendezvous == "tcp:head:29501");
  CHECK(job_of(with(kTorch, {{"MASTER_ADDR", "fd00::1"}})).rendezvous == "tcp:[fd00::1]:29500");
  CHECK(job_of(with(kTorch, {{"LOCAL_WORLD_SIZE", "6"}})).rendezvous.starts_with("unix:/"));
}

TEST_CASE("Open MPI on one host meets at a socket that its job id names") {
  const std::string at = job_of(kOpenMpi).rendezvous;
  CHECK(job_of(kOpenMpi).source == "Open MPI");
  CHECK(at.starts_with("unix:/tmp/heddle-" + std::to_string(::getuid()) + "/"));
  CHECK(at == job_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}))
                  .rendezvous);
  CHECK(at != job_of(with(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "1235"}})).rendezvous);
  CHECK(job_of(with(kOpenMpi, {{"XDG_RUNTIME_DIR", "/run/user/5"}}))
            .rendezvous.starts_with("unix:/run/user/5/heddle-"));
  CHECK(job_of(with(kOpenMpi, {{"XDG_RUNTIME_DIR", "/" + std::string(90, 'a')}}))
            .rendezvous.starts_with("unix:/tmp/"));
}

TEST_CASE("Open MPI on several hosts meets at MASTER_ADDR or HEDDLE_RENDEZVOUS") {
  const Variables spread =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  CHECK(holds(complaint(spread), "HEDDLE_RENDEZVOUS is not set"));
  CHECK(job_of(with(spread, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})).rendezvous == "tcp:h:5");
  CHECK(job_of(with(spread, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}, {"HEDDLE_RENDEZVOUS", "tcp:i:6"}}))
            .rendezvous == "tcp:i:6");
  CHECK(holds(complaint(with(spread, {{"MASTER_ADDR", "h"}})), "MASTER_PORT"));
}

TEST_CASE("PMI's variables") {
  const LaunchEnvironment job = job_of(kPmi);
  CHECK(job.rank == 1);
  CHECK(job.size == 2);
  CHECK(job.source == "PMI");
  Variables nowhere = kPmi;
  nowhere.erase("HEDDLE_RENDEZVOUS");
  CHECK(holds(complaint(nowhere), "PMI does not say"));
  const Variables local{{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_JOBID", "j"}};
  CHECK(job_of(with(nowhere, local)).rendezvous.starts_with("unix:"));
  CHECK(job_of(with(with(nowhere, kSlurm), {{"PMI_SIZE", "5"}})).rendezvous.starts_with("tcp:node08:"));
}

TEST_CASE("Slurm's variables") {
  const LaunchEnvironment job = job_of(kSlurm);
  CHECK(job.rank == 3);
  CHECK(job.size == 5);
  CHECK(job.local_rank == 1);
  CHECK(job.local_size == 2);
  CHECK(job.source == "Slurm");
  CHECK(job.rendezvous.starts_with("tcp:node08:2"));
  CHECK(job_of(with(kSlurm, {{"HEDDLE_COMM_PORTS", "7000"}})).rendezvous == "tcp:node08:7000");
  CHECK(job_of(with(kSlurm, {{"SLURM_NTASKS", "2"},
                             {"SLURM_PROCID", "1"},
                             {"SLURM_TASKS_PER_NODE", "2"},
                             {"SLURM_NODEID", "0"}}))
            .rendezvous.starts_with("unix:"));
  CHECK(job_of(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "4"}})).size == 4);
}

TEST_CASE("the batch script's own shell is no rank") {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  CHECK(job_of(batch).source == "alone");
  CHECK(job_of(with(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})).source == "alone");
}

TEST_CASE("DMLC's variables") {
  const LaunchEnvironment job = job_of(kDmlc);
  CHECK(job.rank == 1);
  CHECK(job.size == 3);
  CHECK(job.rendezvous == "tcp:10.0.0.1:9000");
  CHECK(job.source == "DMLC");
  CHECK(holds(complaint(with(kDmlc, {{"DMLC_ROLE", "server"}})), "'server'"));
}

TEST_CASE("a StatefulSet's pod has its rank in its name") {
  const LaunchEnvironment job = job_of(kPod);
  CHECK(job.rank == 2);
  CHECK(job.size == 4);
  CHECK(job.rendezvous == "tcp:my-job-0.train:20000");
  CHECK(job.source == "Kubernetes");
  CHECK(job_of(with(kPod, {{"HEDDLE_SIZE", "3"}})).size == 3);
  CHECK(job_of(with(kPod, {{"HOSTNAME", "my-job-2.train.default.svc"}})).rank == 2);
  CHECK(job_of(with(kPod, {{"HEDDLE_COMM_PORTS", "81-90"}})).rendezvous == "tcp:my-job-0.train:81");
  CHECK(holds(complaint(with(kPod, {{"HOSTNAME", "laptop"}})), "HOSTNAME"));
  CHECK(holds(complaint(with(kPod, {{"HOSTNAME", "my-job-4"}})), "ordinal"));
  CHECK(holds(complaint({{"HEDDLE_SERVICE", "a"}, {"HOSTNAME", "a-0"}}), "HEDDLE_SIZE is not set"));
}

TEST_CASE("the first that is there is taken, in the documented order") {
  const std::pair<const Variables*, const char*> order[] = {
      {&kHeddle, "HEDDLE_RANK"}, {&kTorch, "torchrun"}, {&kOpenMpi, "Open MPI"}, {&kPmi, "PMI"},
      {&kSlurm, "Slurm"},        {&kDmlc, "DMLC"},      {&kPod, "Kubernetes"}};
  for (auto first = std::begin(order); first != std::end(order); ++first) {
    Variables all;
    for (auto later = first; later != std::end(order); ++later) {
      all.insert(later->first->begin(), later->first->end());
    }
    CHECK(job_of(all).source == first->second);
  }
}

TEST_CASE("variables that are only half there are an error that names the other half") {
  const std::pair<Variables, const char*> cases[] = {
      {{{"HEDDLE_RANK", "0"}}, "HEDDLE_SIZE is not set"},
      {{{"HEDDLE_SIZE", "2"}}, "HEDDLE_RANK is not set"},
      {{{"RANK", "0"}}, "WORLD_SIZE is not set"},
      {{{"WORLD_SIZE", "2"}}, "RANK is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_ADDR is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, "MASTER_PORT is not set"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not set"},
      {{{"PMI_SIZE", "2"}}, "PMI_RANK is not set"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}, "SLURM_STEP_NUM_TASKS is not set"},
      {{{"DMLC_ROLE", "worker"}}, "DMLC_NUM_WORKER is not set"},
      {{{"HEDDLE_RANK", "0"}, {"HEDDLE_SIZE", "2"}}, "HEDDLE_RENDEZVOUS is not set"},
  };
  for (const auto& [variables, wanted] : cases) CHECK(holds(complaint(variables), wanted));
}

TEST_CASE("an empty variable counts as not set") {
  CHECK(job_of({{"HEDDLE_RANK", ""}, {"HEDDLE_SIZE", ""}, {"RANK", ""}}).source == "alone");
}

TEST_CASE("a variable that is no number or out of range is named") {
  const std::pair<const Variables*, const char*> cases[] = {
      {&kHeddle, "HEDDLE_RANK"},
      {&kHeddle, "HEDDLE_SIZE"},
      {&kHeddle, "HEDDLE_LOCAL_RANK"},
      {&kHeddle, "HEDDLE_LOCAL_SIZE"},
      {&kHeddle, "HEDDLE_RENDEZVOUS"},
      {&kTorch, "RANK"},
      {&kTorch, "WORLD_SIZE"},
      {&kTorch, "MASTER_PORT"},
      {&kTorch, "LOCAL_RANK"},
      {&kOpenMpi, "OMPI_COMM_WORLD_SIZE"},
      {&kPmi, "PMI_RANK"},
      {&kSlurm, "SLURM_PROCID"},
      {&kSlurm, "SLURM_TASKS_PER_NODE"},
      {&kSlurm, "SLURM_STEP_NODELIST"},
      {&kSlurm, "SLURM_NODEID"},
      {&kDmlc, "DMLC_WORKER_ID"},
      {&kDmlc, "DMLC_PS_ROOT_PORT"},
      {&kPod, "HEDDLE_REPLICAS"},
  };
  for (const auto& [good, name] : cases) {
    for (const char* bad : {"[", "-1", "1x", " 1", "99999999999999999999", "0x1", "1.5", "node[a]"}) {
      CAPTURE(name);
      CAPTURE(bad);
      if (std::string(name) == "SLURM_STEP_NODELIST" && !comm_detail::first_host(bad).empty()) continue;
      CHECK(holds(complaint(with(*good, {{name, bad}})), name));
    }
  }
  CHECK(holds(complaint(with(kHeddle, {{"HEDDLE_RANK", "4"}})), "from 0 to 3"));
  CHECK(holds(complaint(with(kHeddle, {{"HEDDLE_SIZE", "0"}})), "HEDDLE_SIZE: got '0'"));
  CHECK(holds(complaint(with(kSlurm, {{"HEDDLE_COMM_PORTS", "9-8"}})), "HEDDLE_COMM_PORTS"));
}

TEST_CASE("Slurm's lists") {
  using comm_detail::first_host;
  using comm_detail::tasks_of_node;
  CHECK(first_host("node[01-04]") == "node01");
  CHECK(first_host("node[7,9-10]") == "node7");
  CHECK(first_host("a,b") == "a");
  CHECK(first_host("r[1-2]n[03-04]") == "r1n03");
  CHECK(first_host("gpu[1-2].site.org,x") == "gpu1.site.org");
  for (const char* bad : {"", ",", "a[", "a[]", "a[-]", "a b", "a]", "a[x]", "a[[1]"})
    CHECK(first_host(bad).empty());
  CHECK(tasks_of_node("2(x3),1", 0) == 2);
  CHECK(tasks_of_node("2(x3),1", 2) == 2);
  CHECK(tasks_of_node("2(x3),1", 3) == 1);
  CHECK(tasks_of_node("2(x3),1", 4) == 0);
  for (const char* bad : {"", "x", "(x2)", "2(x", "2(x0)", "2(x2", "-1", "0"})
    CHECK(tasks_of_node(bad, 0) == 0);
}

TEST_CASE("the process that has started this one is found by its name, and no other") {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(getppid()) + "/comm"), name);
  const std::string found = comm_detail::ancestor_called(name);
  CHECK(found.starts_with(std::to_string(getppid()) + "-"));
  CHECK(found.size() > std::to_string(getppid()).size() + 1);
  CHECK(comm_detail::ancestor_called("nobody's name") == "");
}
