// The cost of an op: Heddle beside OpenMP tasks, a oneTBB flow graph, StarPU and MXNet's engine, on the same
// ops.
#include <algorithm>
#include <cstdio>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "command_line.h"
#include "engine/engine_workload.h"

extern char** environ;

namespace {

using namespace heddle::bench;

struct Arguments {
  Setting setting;
  std::vector<std::string> subjects;  // names of the subjects to measure; empty: all subjects
  std::string memory_of;              // in a child process of the workload `memory`: the subject to measure
  std::uint32_t vars_beside = 0;
  std::string instructions_of;  // in a child process of the workload `instructions`: the program to run
  // In a child process that measures one entry of the list --workers: that number of workers. 0 otherwise.
  int of_list = 0;
};

std::vector<PeerKind> peers(const Arguments& arguments) {
  std::vector<PeerKind> all{heddle_peer(), c_peer(), openmp_peer()};
  if (const auto peer = clang_openmp_peer()) all.push_back(*peer);
  all.push_back(flow_graph_peer());
  if (const auto peer = starpu_peer()) all.push_back(*peer);
  const Setting& setting = arguments.setting;
  if (!setting.mxnet.empty()) all.push_back(mxnet_peer(setting.mxnet, setting.workers));
  std::erase_if(all, [&](const PeerKind& kind) {
    const auto& wanted = arguments.subjects;
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), kind.name) == wanted.end();
  });
  return all;
}

std::vector<Workload> workloads() {
  std::vector<Workload> all = program_workloads();
  for (const Workload& workload : replay_workloads()) all.push_back(workload);
  for (const Workload& workload :
       {push_workload(), pushwait_workload(), metg_workload(), wakeup_workload(), idle_workload(),
        memory_workload(), trace_workload(), instructions_workload()}) {
    all.push_back(workload);
  }
  return all;
}

void run(Arguments arguments, int workers) {
  Setting& setting = arguments.setting;
  setting.workers = workers;
  setting.peers = peers(arguments);
  if (!arguments.memory_of.empty())
    return run_memory_child(setting, arguments.memory_of, arguments.vars_beside);
  if (!arguments.instructions_of.empty()) return run_instructions_child(setting, arguments.instructions_of);
  setting.round_trip = cache_line_round_trip();
  print_header(setting);
  for (const Workload& workload : workloads()) {
    if (workload.name.find(setting.options.filter) != std::string::npos) workload.run(setting);
  }
}

// Runs this program again with one number of workers: some peers cannot change their number of workers later
// in a process.
void run_child(const std::vector<std::string>& words, int workers) {
  std::vector<std::string> all = words;
  all.push_back("--of-list=" + std::to_string(workers));
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) != 0 ||
      waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error("the run with " + std::to_string(workers) + " workers failed");
  }
}

void add_engine_options(heddle::command_line::Command& app, Arguments& arguments) {
  Setting& setting = arguments.setting;
  add_options(app, setting.options);
  app.add_option("--ops", setting.ops, "ops a run; 0: as many as suit the case").range(0U, 100'000'000U);
  app.add_option("--subjects", arguments.subjects, "only these, separated by commas").delimiter(',');
  app.add_option("--mxnet", setting.mxnet, "libmxnet.so of MXNet 1.9.1, whose engine then is a peer");
  app.add_flag("--targets", setting.targets, "say what Heddle's numbers are meant to be");
  app.add_option("--memory-of", arguments.memory_of).hidden();
  app.add_option("--vars-beside", arguments.vars_beside).hidden();
  app.add_option("--instructions-of", arguments.instructions_of).hidden();
  app.add_option("--of-list", arguments.of_list).hidden().positive();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  heddle::command_line::Program app(
      "engine_bench",
      "What an op costs: Heddle beside OpenMP tasks, a oneTBB flow graph, StarPU and MXNet's engine");
  add_engine_options(app, arguments);
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    const std::vector<int>& workers = arguments.setting.options.workers;
    if (arguments.of_list > 0) {
      run(arguments, arguments.of_list);
    } else if (workers.size() == 1) {
      run(arguments, workers.front());
    } else {
      for (int count : workers) run_child(std::vector<std::string>(argv, argv + argc), count);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
