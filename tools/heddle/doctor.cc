// heddle doctor: checks this host for communication and linear algebra.
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <string>
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

// Checks which kernels OpenBLAS has chosen. It knows a list of CPUs; on a CPU newer than the list it chooses
// slow kernels, those of an old CPU.
Finding examine_linear_algebra() {
  const auto name_of_core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const std::string subject = "linear algebra";
  if (!name_of_core) return {Finding::Level::ok, subject, "another BLAS than OpenBLAS"};
  const std::string core = name_of_core();
  const char* const with_avx2[] = {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"};
  const auto is_core = [&core](const std::string& known) { return core == known; };
  if (!__builtin_cpu_supports("avx2") || std::any_of(std::begin(with_avx2), std::end(with_avx2), is_core))
    return {Finding::Level::ok, subject, "OpenBLAS with its code for " + core};
  const std::string better = __builtin_cpu_supports("avx512bw") ? "SkylakeX" : "Haswell";
  return {Finding::Level::note, subject,
          "OpenBLAS takes this CPU for " + core +
              ": products of f64 and decompositions would be two to four "
              "times as fast with OPENBLAS_CORETYPE=" +
              better};
}

int run() {
  std::vector<Finding> findings = examine_host();
  findings.push_back(examine_linear_algebra());
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
                          "memory, cores, other launchers and libraries; and what linear algebra finds.\n\n"
                          "    heddle doctor                        this shell\n"
                          "    heddle launch -n 2 -- heddle doctor  as the ranks of a job see it\n"
                          "    srun -n 2 heddle doctor              the same under Slurm\n\n"
                          "OK: as it should be. NOTE: works, but look at it. PROBLEM: a job would fail; "
                          "the exit code is 1 then.");
  command.on_parsed([&action] { action = [] { return run(); }; });
}

}  // namespace heddle::tool
