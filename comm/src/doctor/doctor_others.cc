#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <unistd.h>

#include <heddle/number_text.h>
#include <heddle/usable_cores.h>

#include "core/backend_table.h"
#include "doctor/doctor_checks.h"

namespace heddle::comm_detail {
namespace {

using Level = Finding::Level;

// The path of a program that is in PATH; empty if it is not.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::string first_line_of(const char* command) {
  FILE* pipe = ::popen(command, "r");
  if (!pipe) return "";
  char line[200] = "";
  const bool there = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  std::string text = there ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void examine_cores(Findings& findings) {
  const UsableCores cores = usable_cores();
  std::string text =
      std::to_string(cores.by_affinity) + " of " + std::to_string(cores.online) + " by affinity";
  if (cores.by_quota > 0) text += ", " + fixed_text(cores.by_quota, 1) + " by the control group";
  const bool fewer = cores.by_quota > 0 && cores.by_quota < cores.by_affinity;
  findings.push_back({fewer ? Level::note : Level::ok, "cores", text});
  std::error_code none;
  int nodes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", none)) {
    const std::string name = entry.path().filename();
    nodes += name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9';
  }
  findings.push_back({Level::ok, "NUMA",
                      nodes == 0 ? "unknown" : std::to_string(nodes) + (nodes == 1 ? " node" : " nodes")});
}

// A missing program is a note only, since Heddle does not need it.
void examine_program(Findings& findings, const char* subject, const char* name, const char* without) {
  const std::string file = find_program(name);
  findings.push_back({file.empty() ? Level::note : Level::ok, subject,
                      file.empty() ? std::string("no ") + name + " in PATH: " + without : file});
}

}  // namespace

void examine_others(Findings& findings) {
  examine_cores(findings);
  const std::string mpirun = find_program("mpirun");
  const std::string version = mpirun.empty() ? "" : first_line_of("mpirun --version 2>/dev/null");
  findings.push_back(mpirun.empty() ? Finding{Level::note, "MPI", "no mpirun in PATH"}
                                    : Finding{Level::ok, "MPI", mpirun + ", " + version});
  for (const BackendInfo& info : backends()) {
    if (!info.library) continue;
    const std::string library = info.library();
    findings.push_back({Level::ok, "backend " + info.name,
                        library.empty() ? "not in this build: cmake -D" + info.option + "=ON"
                                        : "in this build: " + library});
  }
  examine_program(findings, "Slurm", "srun", "not a host of a Slurm cluster, or not for this user");
  examine_program(findings, "ssh", "ssh", "heddle launch --hosts cannot reach other hosts");
  examine_gpus(findings);
}

}  // namespace heddle::comm_detail
