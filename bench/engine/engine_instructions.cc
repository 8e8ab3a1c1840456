// instructions_chain .. instructions_dag: instructions per op, summed over all threads. valgrind counts them,
// so other load on the machine does not change them. Each count is taken in a new process. The difference
// between the counts for two numbers of ops leaves out start-up and shutdown. The same difference, counted
// without an engine, is subtracted, so that only the engine's instructions are left.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

constexpr std::uint32_t kFewOps = 20'000, kManyOps = 60'000;
constexpr int kMostRuns = 3;
// Prefixes of a program's name for the child process: run without an engine, or through the C ABI.
const std::string kNoEngine = "no_", kThroughC = "c_";

struct Named {
  const char* name;
  Program (*make)(std::uint32_t ops);
};
constexpr Named kPrograms[] = {{"chain", chain}, {"independent", independent}, {"fan", fan}, {"dag", dag}};

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot start a shell");
  std::string output;
  for (int byte; (byte = std::fgetc(pipe.get())) != EOF;) output.push_back(static_cast<char>(byte));
  return output;
}

double count(const std::string& what, std::uint32_t ops, int workers) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string output =
      output_of("valgrind --tool=callgrind --callgrind-out-file=/dev/null '" + self + "' --instructions-of " +
                what + " --workers " + std::to_string(workers) + " --ops " + std::to_string(ops) + " 2>&1");
  const std::string mark = "Collected : ";
  const std::size_t at = output.find(mark);
  if (at == std::string::npos) throw std::runtime_error("valgrind said: " + output);
  return std::strtod(output.c_str() + at + mark.size(), nullptr);
}

double instructions_an_op(const std::string& prefix, const std::string& program, int workers) {
  const auto more = [&](const std::string& what) {
    return count(what + program, kManyOps, workers) - count(what + program, kFewOps, workers);
  };
  return (more(prefix) - more(kNoEngine)) / (kManyOps - kFewOps);
}

void run(Setting setting) {
  if (output_of("valgrind --version 2>/dev/null").empty()) {
    std::printf("without instructions: valgrind is not installed\n");
    return;
  }
  setting.options.runs = setting.options.quick ? 1 : std::min(setting.options.runs, kMostRuns);
  for (const Named& program : kPrograms) {
    const std::string name = program.name;
    const auto of = [&](const std::string& prefix) {
      return [prefix, name, &setting] { return instructions_an_op(prefix, name, setting.workers); };
    };
    run_case(setting, {"engine",
                       "instructions_" + name,
                       "instr/op",
                       setting.workers,
                       {{"heddle", of("")}, {"heddle_c", of(kThroughC)}}});
  }
}

}  // namespace

Workload instructions_workload() { return {"instructions", run}; }

void run_instructions_child(const Setting& setting, const std::string& what) {
  for (const Named& program : kPrograms) {
    if (!what.ends_with(program.name)) continue;
    Stage stage(program.make(setting.ops));
    if (what.starts_with(kNoEngine)) {
      stage.run_serially();
    } else {
      const PeerKind kind = what.starts_with(kThroughC) ? c_peer() : heddle_peer();
      kind.make(stage.program(), stage.cells(), setting.workers)->session([&](Session& session) {
        session.push(0, stage.ops());
        session.wait_all();
      });
    }
    stage.check(what);
  }
}

}  // namespace heddle::bench
