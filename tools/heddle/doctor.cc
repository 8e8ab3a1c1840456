// heddle doctor: what communication finds here.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <heddle/doctor.h>

#include "command.h"

namespace heddle::tool {
namespace {

const char* word_for(Finding::Level level) {
  switch (level) {
    case Finding::Level::ok:
      return "OK";
    case Finding::Level::note:
      return "NOTE";
    case Finding::Level::problem:
      return "PROBLEM";
  }
  return "";
}

int run() {
  const std::vector<Finding> findings = examine_host();
  for (const Finding& one : findings) {
    std::printf("%-8s %-15s %s\n", word_for(one.level), one.subject.c_str(), one.text.c_str());
  }
  const auto problems = std::count_if(findings.begin(), findings.end(), [](const Finding& one) {
    return one.level == Finding::Level::problem;
  });
  if (problems > 0) std::printf("%ld of these would stop a job\n", static_cast<long>(problems));
  return problems > 0 ? 1 : 0;
}

}  // namespace

void add_doctor(Program& program, Action& action) {
  command_line::Command command =
      program.add_command("doctor",
                          "Says what communication finds on this host, what it would choose and why: the "
                          "job, addresses, ports, shared\n"
                          "memory, cores, other launchers and libraries.\n\n"
                          "    heddle doctor                        this shell\n"
                          "    heddle launch -n 2 -- heddle doctor  as the ranks of a job see it\n"
                          "    srun -n 2 heddle doctor              the same under Slurm\n\n"
                          "OK: as it should be. NOTE: works, but look at it. PROBLEM: a job would fail; "
                          "the exit code is 1 then.");
  command.on_parsed([&action] { action = [] { return run(); }; });
}

}  // namespace heddle::tool
