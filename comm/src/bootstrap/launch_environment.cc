#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <heddle/error.h>
#include <heddle/launch_environment.h>

#include "bootstrap/ancestor.h"
#include "bootstrap/host_list.h"
#include "connection/interfaces.h"
#include "transport/fnv1a.h"

namespace heddle {
namespace {

using net_detail::fnv1a;
using net_detail::PortRange;
using Lookup = std::function<const char*(const char*)>;

constexpr int kMaxRanks = 1 << 20;
constexpr PortRange kDefaultPorts{20000, 29999};  // below the ports that Linux uses for outgoing connections
// Steps of Slurm from this number on are not srun's: the shell of a batch script, interactive steps and such.
constexpr long kFirstSpecialStep = 0xfffffff0;

struct Variable {
  const char* name;
  std::string value;
};

class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value ? value : "";
  }
  bool has(const char* name) const { return !text(name).empty(); }

  // The first of the names that is set.
  std::optional<Variable> first(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (has(name)) return Variable{name, text(name)};
    }
    return std::nullopt;
  }

  Variable need(std::initializer_list<const char*> names, const std::string& because) const {
    if (auto found = first(names)) return *found;
    throw InvalidArgument(std::string(*names.begin()) + " is not set, but " + because);
  }

 private:
  const Lookup& lookup_;
};

long number(const Variable& variable, long least, long most) {
  long value = 0;
  const std::string& text = variable.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw InvalidArgument(std::string(variable.name) + ": got '" + text + "', want a number from " +
                          std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

using Names = std::initializer_list<const char*>;

// Reads rank and size, which are both required if one of them is set.
LaunchEnvironment rank_and_size(const Reader& read, const char* source, Names rank, Names size) {
  LaunchEnvironment job;
  job.source = source;
  const Variable size_variable = read.need(
      size, std::string(read.first(rank) ? *rank.begin() : source) + " says that this is one rank of a job");
  job.size = static_cast<int>(number(size_variable, 1, kMaxRanks));
  const Variable rank_variable = read.need(
      rank, std::string(size_variable.name) + " says that there are " + size_variable.value + " ranks");
  job.rank = static_cast<int>(number(rank_variable, 0, job.size - 1));
  return job;
}

// Reads the local rank and size. The variables may be missing: then no ranks are known to share a host.
void read_locals(const Reader& read, LaunchEnvironment& job, Names rank, Names size) {
  if (const auto found = read.first(size)) job.local_size = static_cast<int>(number(*found, 1, job.size));
  if (const auto found = read.first(rank)) {
    const bool known = read.first(size).has_value();
    job.local_rank = static_cast<int>(number(*found, 0, (known ? job.local_size : job.size) - 1));
  }
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::to_chars(text.data(), text.data() + 16, value, 16);
  return text.data();
}

// A unix socket in a directory that other users cannot enter. `job` identifies the job among those of the user.
std::string socket_of(const Reader& read, const std::string& job) {
  std::string folder = read.text("XDG_RUNTIME_DIR");
  constexpr std::size_t kLongestFolder = 60;  // a socket's path has room for 107 characters
  if (!folder.starts_with('/') || folder.size() > kLongestFolder) folder = "/tmp";
  return "unix:" + folder + "/heddle-" + std::to_string(::getuid()) + "/" + hexadecimal(fnv1a(job)) + ".sock";
}

// Puts an IPv6 address into brackets, if it has none.
std::string tcp(const std::string& host, long port) {
  const bool bare = host.find(':') != std::string::npos && !host.starts_with('[');
  return "tcp:" + (bare ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

PortRange ports_of(const Reader& read) {
  const std::string text = read.text("HEDDLE_COMM_PORTS");
  return text.empty() ? kDefaultPorts : net_detail::parse_port_range(text);
}

long port_from(const Reader& read, const char* name) {
  return number(read.need({name}, "the ranks need a port to find each other at"), 1, 65535);
}

bool on_one_host(const LaunchEnvironment& job) { return job.local_size == job.size; }

// The rendezvous for every launcher: HEDDLE_RENDEZVOUS, or, if all ranks share a host, a unix socket that no
// other user can reach. False: neither applies.
bool choose_common_rendezvous(const Reader& read, LaunchEnvironment& job, const std::string& job_id) {
  if (job.size == 1) return true;
  job.rendezvous = read.text("HEDDLE_RENDEZVOUS");
  if (!job.rendezvous.empty()) {
    if (job.rendezvous.starts_with("unix:") || job.rendezvous.starts_with("tcp:")) return true;
    throw InvalidArgument("HEDDLE_RENDEZVOUS: got '" + job.rendezvous +
                          "', want unix:/PATH or tcp:HOST:PORT");
  }
  if (on_one_host(job) && !job_id.empty()) job.rendezvous = socket_of(read, job.source + "/" + job_id);
  return !job.rendezvous.empty();
}

bool choose_master_rendezvous(const Reader& read, LaunchEnvironment& job) {
  if (!read.has("MASTER_ADDR")) return false;
  job.rendezvous = tcp(read.text("MASTER_ADDR"), port_from(read, "MASTER_PORT"));
  return true;
}

std::string slurm_job(const Reader& read) {
  const auto id = read.first({"SLURM_JOB_ID", "SLURM_JOBID"});
  return id ? id->value + "." + read.text("SLURM_STEP_ID") : "";
}

// The first host of the step, and a port that other steps on that host are unlikely to have.
bool choose_slurm_rendezvous(const Reader& read, LaunchEnvironment& job) {
  const auto nodes = read.first({"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"});
  if (!nodes || slurm_job(read).empty()) return false;
  const std::string host = comm_detail::first_host(nodes->value);
  if (host.empty()) {
    throw InvalidArgument(std::string(nodes->name) + ": got '" + nodes->value + "', which names no host");
  }
  const PortRange ports = ports_of(read);
  job.rendezvous = tcp(host, ports.first + static_cast<long>(fnv1a(slurm_job(read)) %
                                                             static_cast<std::uint64_t>(ports.count())));
  return true;
}

[[noreturn]] void throw_no_rendezvous(const LaunchEnvironment& job) {
  throw InvalidArgument("HEDDLE_RENDEZVOUS is not set, and " + job.source + " does not say where " +
                        std::to_string(job.size) +
                        " ranks find each other: set it to unix:/PATH (one host) or tcp:HOST:PORT of rank 0");
}

LaunchEnvironment from_heddle(const Reader& read) {
  LaunchEnvironment job = rank_and_size(read, "HEDDLE_RANK", {"HEDDLE_RANK"}, {"HEDDLE_SIZE"});
  read_locals(read, job, {"HEDDLE_LOCAL_RANK"}, {"HEDDLE_LOCAL_SIZE"});
  if (!choose_common_rendezvous(read, job, "") && !choose_master_rendezvous(read, job))
    throw_no_rendezvous(job);
  const bool unix_socket = job.rendezvous.starts_with("unix:");
  if (unix_socket && !read.has("HEDDLE_LOCAL_SIZE")) job.local_rank = job.rank, job.local_size = job.size;
  return job;
}

// torchrun's agent may listen at MASTER_PORT; the next port is used then.
LaunchEnvironment from_torchrun(const Reader& read) {
  LaunchEnvironment job = rank_and_size(read, "torchrun", {"RANK"}, {"WORLD_SIZE"});
  read_locals(read, job, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"});
  const std::string id = read.text("MASTER_PORT");
  if (choose_common_rendezvous(read, job, id.empty() ? id : id + "/" + read.text("TORCHELASTIC_RUN_ID")))
    return job;
  const std::string host = read.need({"MASTER_ADDR"}, "RANK and WORLD_SIZE are").value;
  const long port = port_from(read, "MASTER_PORT");
  const bool taken = read.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  job.rendezvous = tcp(host, !taken ? port : port == 65535 ? port - 1 : port + 1);
  return job;
}

LaunchEnvironment from_open_mpi(const Reader& read) {
  LaunchEnvironment job = rank_and_size(read, "Open MPI", {"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"});
  read_locals(read, job, {"OMPI_COMM_WORLD_LOCAL_RANK"}, {"OMPI_COMM_WORLD_LOCAL_SIZE"});
  const auto id = read.first({"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"});
  if (!choose_common_rendezvous(read, job, id ? id->value : "") && !choose_master_rendezvous(read, job) &&
      !choose_slurm_rendezvous(read, job)) {
    throw_no_rendezvous(job);
  }
  return job;
}

void read_slurm_locals(const Reader& read, LaunchEnvironment& job) {
  const auto tasks = read.first({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const auto node = read.first({"SLURM_NODEID"});
  if (tasks) {
    const long index = node ? number(*node, 0, kMaxRanks) : 0;
    const int count = comm_detail::tasks_of_node(tasks->value, index);
    if (count < 1 || count > job.size) {
      throw InvalidArgument(std::string(tasks->name) + ": got '" + tasks->value +
                            "', want the tasks of each node, as in 2(x3),1");
    }
    job.local_size = count;
  }
  if (const auto local = read.first({"SLURM_LOCALID"})) {
    job.local_rank = static_cast<int>(number(*local, 0, (tasks ? job.local_size : job.size) - 1));
  }
}

LaunchEnvironment from_pmi(const Reader& read) {
  LaunchEnvironment job = rank_and_size(read, "PMI", {"PMI_RANK"}, {"PMI_SIZE"});
  if (read.has("SLURM_LOCALID")) {
    read_slurm_locals(read, job);
  } else {
    read_locals(read, job, {"MPI_LOCALRANKID"}, {"MPI_LOCALNRANKS"});
  }
  const std::string id = read.has("SLURM_STEP_ID") ? slurm_job(read) : read.text("PMI_JOBID");
  if (!choose_common_rendezvous(read, job, id) && !choose_master_rendezvous(read, job) &&
      !choose_slurm_rendezvous(read, job)) {
    throw_no_rendezvous(job);
  }
  return job;
}

// The shell of a batch script also has SLURM_PROCID, but its step is not one of srun's.
bool in_slurm_step(const Reader& read) {
  if (!read.has("SLURM_PROCID")) return false;
  const auto step = read.first({"SLURM_STEP_ID", "SLURM_STEPID"});
  return step && number(*step, 0, 0xffffffffL) < kFirstSpecialStep;
}

LaunchEnvironment from_slurm(const Reader& read) {
  LaunchEnvironment job =
      rank_and_size(read, "Slurm", {"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  read_slurm_locals(read, job);
  if (!choose_common_rendezvous(read, job, slurm_job(read)) && !choose_master_rendezvous(read, job) &&
      !choose_slurm_rendezvous(read, job)) {
    throw_no_rendezvous(job);
  }
  return job;
}

LaunchEnvironment from_dmlc(const Reader& read) {
  if (const std::string role = read.text("DMLC_ROLE"); !role.empty() && role != "worker") {
    throw InvalidArgument("DMLC_ROLE: got '" + role + "', want worker: collectives have no other roles");
  }
  LaunchEnvironment job =
      rank_and_size(read, "DMLC", {"DMLC_WORKER_ID", "DMLC_TASK_ID"}, {"DMLC_NUM_WORKER"});
  if (choose_common_rendezvous(read, job, "")) return job;
  const std::string host = read.need({"DMLC_PS_ROOT_URI"}, "DMLC_NUM_WORKER is").value;
  job.rendezvous = tcp(host, port_from(read, "DMLC_PS_ROOT_PORT"));
  return job;
}

// Pods of a StatefulSet are called NAME-0, NAME-1, ...; the headless service makes these names known to all.
LaunchEnvironment from_kubernetes(const Reader& read) {
  LaunchEnvironment job;
  job.source = "Kubernetes";
  const Variable size = read.need({"HEDDLE_SIZE", "HEDDLE_REPLICAS"}, "HEDDLE_SERVICE is");
  job.size = static_cast<int>(number(size, 1, kMaxRanks));
  const Variable pod = read.need({"HOSTNAME"}, "HEDDLE_SERVICE is");
  const std::string name = pod.value.substr(0, pod.value.find('.'));
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0) {
    throw InvalidArgument("HOSTNAME: got '" + pod.value +
                          "', want NAME-ORDINAL as a StatefulSet's pods are called");
  }
  job.rank = static_cast<int>(number({"HOSTNAME's ordinal", name.substr(dash + 1)}, 0, job.size - 1));
  if (choose_common_rendezvous(read, job, "")) return job;
  job.rendezvous = tcp(name.substr(0, dash) + "-0." + read.text("HEDDLE_SERVICE"), ports_of(read).first);
  return job;
}

}  // namespace

LaunchEnvironment LaunchEnvironment::from(const Lookup& lookup) {
  const Reader read(lookup);
  // HEDDLE_SIZE alone, with HEDDLE_SERVICE, is a StatefulSet's, since the names of its pods contain their
  // ranks.
  const bool pod = read.has("HEDDLE_SERVICE") && !read.has("HEDDLE_RANK");
  if (read.has("HEDDLE_RANK") || (read.has("HEDDLE_SIZE") && !pod)) return from_heddle(read);
  if (read.first({"RANK", "WORLD_SIZE"})) return from_torchrun(read);
  if (read.first({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) return from_open_mpi(read);
  if (read.first({"PMI_RANK", "PMI_SIZE"})) return from_pmi(read);
  if (in_slurm_step(read)) return from_slurm(read);
  if (read.first({"DMLC_ROLE", "DMLC_WORKER_ID", "DMLC_NUM_WORKER"})) return from_dmlc(read);
  if (pod) return from_kubernetes(read);
  return {};
}

LaunchEnvironment LaunchEnvironment::from_environment() {
  return from_environment([](std::string_view) -> const char* { return nullptr; });
}

LaunchEnvironment LaunchEnvironment::from_environment(
    const std::function<const char*(std::string_view)>& instead) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string proxy;
  return from([&](const char* name) -> const char* {
    if (const char* value = instead(name)) return value;
    if (const char* value = std::getenv(name)) return value;
    if (name == std::string_view("HOSTNAME")) return host;  // shells may not export HOSTNAME
    if (name != std::string_view("PMI_JOBID")) return nullptr;
    // MPICH's and Intel's mpiexec give a job no name, but run a proxy process on each host, which starts its ranks.
    return (proxy = comm_detail::ancestor_called("hydra_pmi_proxy")).c_str();
  });
}

}  // namespace heddle
