// heddle launch: starts the processes of a job, on this host or by ssh, and ends them together.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <heddle/usable_cores.h>

#include "command.h"
#include "launch/job.h"
#include "launch/plan.h"
#include "launch/process.h"
#include "launch/store_servers.h"

extern char** environ;

namespace heddle::tool {
namespace {

struct Options {
  int ranks = 0, servers = 0, replicas = 0;  // replicas 0: two if there are at least two servers, else one
  std::string hosts, output, ssh = "ssh";
  bool no_prefix = false;
  bool no_bind = false;
  double grace = 5;
  int restarts = 0, server_restarts = 10;
  std::vector<std::string> variables, program;
};

// A private directory for the socket by which the ranks find each other. The destructor removes it.
class SocketDirectory {
 public:
  SocketDirectory() {
    std::error_code error;
    const std::string folder = std::filesystem::temp_directory_path(error).string();
    std::string pattern = folder + kPattern;
    // A unix socket's path has 107 characters at most.
    if (error || pattern.size() + std::strlen(kSocket) >= sizeof sockaddr_un::sun_path)
      pattern = std::string("/tmp") + kPattern;
    if (!::mkdtemp(pattern.data()))
      throw std::runtime_error("cannot make a directory like " + pattern + ": " + std::strerror(errno));
    path_ = pattern;
  }
  ~SocketDirectory() { remove_socket_directory(path_); }
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string socket() const { return path_ + kSocket; }  // address of the ranks' rendezvous

 private:
  static constexpr const char *kPattern = "/heddle-launch-XXXXXX", *kSocket = "/job.sock";
  std::string path_;
};

// The TCP address of the ranks' rendezvous. Its port is below the ports that Linux uses for outgoing
// connections, and depends on this process, so that launchers on one host use different ports.
std::string tcp_rendezvous(const std::vector<RankPlan>& plan) {
  constexpr int kFirst = 20000, kCount = 10000;
  const char* set = std::getenv("HEDDLE_COMM_PORTS");
  const std::string port = set && *set ? std::string(set).substr(0, std::string(set).find('-'))
                                       : std::to_string(kFirst + ::getpid() % kCount);
  const bool one_host = plan.front().host == plan.back().host;
  std::string host = one_host ? "127.0.0.1" : plan.front().host;
  if (host.empty()) host = this_host();
  return "tcp:" + host.substr(host.find('@') + 1) + ":" + port;
}

// The variables of this process's environment that ranks on other hosts get, and those that --env names.
Environment forwarded(const std::vector<std::string>& asked) {
  Environment result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != std::string::npos)
      continue;
    if (name.starts_with("HEDDLE_") || name == "OMP_NUM_THREADS") result[name] = text.substr(equals + 1);
  }
  for (const std::string& one : asked) result[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
  return result;
}

// Completes NAME to NAME=VALUE with the value from the environment.
std::vector<std::string> with_values(std::vector<std::string> variables) {
  for (std::string& one : variables) {
    const std::string name = one.substr(0, one.find('='));
    const bool odd =
        name.empty() || (name[0] >= '0' && name[0] <= '9') ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") !=
            std::string::npos;
    if (odd) throw std::runtime_error("--env: '" + one + "' is no NAME or NAME=VALUE");
    if (one.find('=') != std::string::npos) continue;
    const char* value = std::getenv(one.c_str());
    if (!value) throw std::runtime_error("--env: " + one + " is not set here");
    one += std::string("=") + value;
  }
  return variables;
}

void share_cores(Environment& environment, int local_size) {
  const std::string share = std::to_string(std::max(1, usable_cores().count() / local_size));
  for (const char* name : {"HEDDLE_WORKERS", "OMP_NUM_THREADS"}) {
    if (!std::getenv(name) && !environment.contains(name)) environment[name] = share;
  }
}

// The command that starts the program through ssh on its host.
RankProgram by_ssh(RankProgram program, const Options& options) {
  program.environment.merge(forwarded(options.variables));  // keeps the values that program.environment has
  const std::string directory = std::filesystem::current_path().string();
  const std::string script = remote_script(program.plan, directory, program.environment, program.words);
  return {program.plan, {options.ssh, "-o", "BatchMode=yes", "-T", "--", program.plan.host, script}, {}, {}};
}

// The command for one rank. `scheduler` is the address of the servers' scheduler; empty: the job has no
// servers.
RankProgram program_of(const RankPlan& rank, int restart, int size, const std::string& rendezvous,
                       const std::string& scheduler, const Options& options) {
  Environment environment = identity(rank, size, rendezvous);
  if (!scheduler.empty()) environment["HEDDLE_STORE_SCHEDULER"] = scheduler;
  environment["HEDDLE_RESTART"] = std::to_string(restart);
  if (rank.host.empty()) {
    for (const std::string& one : options.variables) {
      environment.emplace(one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
    }
    share_cores(environment, rank.local_size);
    const bool bound = !options.no_bind;
    return {rank, options.program, environment,
            bound ? cores_of(rank.local_rank, rank.local_size) : std::vector<int>()};
  }
  return by_ssh({rank, options.program, std::move(environment), {}}, options);
}

int copies(const Options& options) {
  return options.replicas > 0 ? options.replicas : std::min(std::max(options.servers, 1), 2);
}

// The job's servers, which run on the ranks' hosts, round robin. The scheduler keeps its state in
// `directory`.
StoreServers servers_of(const Options& options, const std::string& directory) {
  StoreServers::Settings settings{
      .servers = options.servers, .replicas = copies(options), .directory = directory};
  if (!options.hosts.empty()) settings.hosts = parse_hosts(options.hosts);
  return StoreServers(std::move(settings));
}

std::vector<RankPlan> plan_of(const Options& options) {
  if (options.replicas > 1 && options.servers < 2)
    throw std::runtime_error("--replicas " + std::to_string(options.replicas) +
                             " needs two servers: --servers 2");
  if (!options.hosts.empty()) return place_ranks(parse_hosts(options.hosts), options.ranks);
  if (options.ranks == 0) throw std::runtime_error("say how many ranks: -n N, or where: --hosts A:2,B:2");
  return place_ranks({{"", options.ranks}}, options.ranks);
}

[[noreturn]] void misuse(const std::string& why) { throw command_line::Misuse(why); }

// The program and its arguments. `rest` has the words from the first one that is no option of heddle launch;
// `behind` has those behind a "--", which belongs to the program if it follows such a word.
std::vector<std::string> program_in(std::vector<std::string> rest, const Behind& behind) {
  if (!rest.empty() && rest.front().starts_with("-")) misuse("unknown option " + rest.front());
  if (behind) {
    if (!rest.empty()) rest.push_back("--");
    rest.insert(rest.end(), behind->begin(), behind->end());
  }
  if (rest.empty()) misuse("which program? heddle launch -n 2 ./program");
  return rest;
}

int run(const Options& options) {
  const std::vector<RankPlan> plan = plan_of(options);
  const bool all_here =
      std::all_of(plan.begin(), plan.end(), [](const RankPlan& rank) { return rank.host.empty(); });
  block_signals();
  const SocketDirectory directory;
  const std::string rendezvous = all_here ? "unix:" + directory.socket() : tcp_rendezvous(plan);
  Guard guard(directory.path());
  const StoreServers servers = servers_of(options, directory.path());
  const auto program = [&, size = static_cast<int>(plan.size())](const RankPlan& rank, int restart) {
    if (rank.kind != ProcessKind::rank) {
      RankProgram mine = servers.program(rank);
      return rank.host.empty() ? mine : by_ssh(std::move(mine), options);
    }
    return program_of(rank, restart, size, rendezvous, servers.address(), options);
  };
  std::vector<RankPlan> all = servers.plan();
  all.insert(all.end(), plan.begin(), plan.end());
  return run_job(all, program,
                 {.prefix = !options.no_prefix,
                  .output = options.output,
                  .grace = std::chrono::milliseconds(static_cast<long long>(options.grace * 1000)),
                  .restarts = options.restarts,
                  .copies = copies(options) > 1,
                  .server_restarts = options.server_restarts},
                 guard);
}

constexpr const char* kDescription =
    "Starts a program several times, as the ranks of one job, and ends them together.\n\n"
    "    heddle launch -n 4 ./train --epochs 3          four ranks on this host\n"
    "    heddle launch --hosts a:2,b:2 -- ./train       two each on a and b, by ssh, in this directory\n"
    "    heddle launch -n 4 --output logs ./train       what rank 2 prints goes to logs/rank-2.log\n"
    "    heddle launch -n 2 --env SEED=7 -- env         what the ranks are told\n\n"
    "Every line that a rank prints starts with [rank]. The first rank that fails ends the job: the others "
    "get\n"
    "SIGTERM, later SIGKILL, and heddle launch ends with the exit code of that rank (128 + the number of a "
    "signal),\n"
    "after its last lines of stderr. Ctrl-C and SIGTERM go to all ranks; a second one kills them.\n"
    "Whatever a rank has started ends with it.\n\n"
    "    heddle launch -n 4 --restarts 2 ./elastic      a rank that fails is started again, twice in all\n\n"
    "It finds the same variables and HEDDLE_RESTART, how many restarts there have been. The others go on to "
    "run: "
    "the program\n"
    "has to meet again, with Communicator::grow().\n\n"
    "    heddle launch -n 2 --servers 1 ./train         and a server for stores such as dist_sync\n\n"
    "It also starts a scheduler, on this host. HEDDLE_STORE_SCHEDULER tells the ranks where that is; both "
    "end "
    "after them.\n"
    "With two servers or more each keeps a copy of another's part: one that dies is started again, and the "
    "ranks "
    "go on.\n\n"
    "Cores are shared: HEDDLE_WORKERS and OMP_NUM_THREADS, unless you set them, become the number of cores "
    "by the\n"
    "number of ranks on the host, 1 at least. Ranks of this host stay on cores of their own, if there are as "
    "many:\n"
    "two on one core would make all ranks wait for a slice of time. --no-bind leaves that to the system.\n"
    "Ranks read HEDDLE_RANK, HEDDLE_SIZE, HEDDLE_LOCAL_RANK, HEDDLE_LOCAL_SIZE and HEDDLE_RENDEZVOUS.\n"
    "Other hosts need ssh without a password and the program under the same path; they get all HEDDLE_* "
    "variables.\n"
    "Between hosts everything is encrypted, with the key that heddle keygen makes.";

}  // namespace

void add_launch(Program& program, Action& action, const Behind& behind) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("launch", kDescription);
  command
      .add_option("-n,--ranks", options->ranks, "how many ranks; without it, as many as --hosts has room for")
      .range(1, 4096)
      .type_name("N");
  command.add_option("--hosts", options->hosts, "where, and how many on each at most; localhost is this one")
      .type_name("HOST[:RANKS],...");
  command.add_flag("--no-prefix", options->no_prefix, "lines as the ranks print them");
  command.add_flag("--no-bind", options->no_bind, "let ranks of this host run on all of its cores");
  command.add_option("--output", options->output, "write what rank R prints to DIR/rank-R.log instead")
      .type_name("DIR");
  command.add_option("--grace", options->grace, "how long ranks have to end before they are killed")
      .range(0.0, 3600.0)
      .show_default()
      .type_name("SECONDS");
  command
      .add_option("--restarts", options->restarts,
                  "how often ranks that fail are started again, in all, before one that fails ends the job")
      .range(0, 1000000)
      .show_default()
      .type_name("N");
  command
      .add_option("--servers", options->servers,
                  "how many servers of key-value stores to start, on the hosts in turn")
      .range(0, 64)
      .type_name("N");
  command
      .add_option("--replicas", options->replicas,
                  "copies of each part of the keys, on different servers; 2 if there are two servers or more")
      .range(1, 2)
      .type_name("N");
  command
      .add_option(
          "--server-restarts", options->server_restarts,
          "how often a minute each server that dies is started again, if another one has a copy of its part")
      .range(0, 1000000)
      .show_default()
      .type_name("N");
  command
      .add_option("--env", options->variables, "set a variable for all ranks; also for those on other hosts")
      .type_name("NAME[=VALUE]")
      .one_value();
  command.add_option("--ssh", options->ssh, "what to reach hosts with").show_default().type_name("PROGRAM");
  command.prefix_command();
  command.footer("What follows is the program and its arguments; -- before it makes that plain.");
  command.on_parsed([options, command, behind, &action] {
    options->program = program_in(command.remaining(), behind);
    try {
      options->variables = with_values(options->variables);
      plan_of(*options);
    } catch (const std::exception& error) {
      misuse(error.what());
    }
    action = [options] { return run(*options); };
  });
}

}  // namespace heddle::tool
