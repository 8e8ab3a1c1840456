// What there is for GPUs: the driver, CUDA's runtime, devices and which reach each other, libraries.
#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <string>

#include <heddle/gpu_info.h>

#include "device/device_ranks.h"
#include "doctor/doctor_checks.h"

namespace heddle::comm_detail {
namespace {

using Level = Finding::Level;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The first of these libraries that can be opened, in the folders of HEDDLE_CUDA_LIBRARIES, then where the loader looks;
// empty: none.
std::string find_library(const std::initializer_list<const char*>& names) {
  const char* const given = std::getenv("HEDDLE_CUDA_LIBRARIES");
  std::istringstream folders(std::string(given ? given : "") + ":");
  std::string folder;
  do {
    const bool last = !std::getline(folders, folder, ':');
    for (const char* name : names) {
      const std::string file = last || folder.empty() ? name : folder + "/" + name;
      void* const library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (!library) continue;
      ::dlclose(library);
      return file;
    }
    if (last) return "";
  } while (true);
}

void examine_driver(Findings& findings, const GpuInfo& info) {
  const bool library = !find_library({"libcuda.so.1"}).empty();
  if (!info.built)
    return findings.push_back({Level::note, "CUDA",
                               std::string("not in this build (cmake -DHEDDLE_CUDA=ON); ") +
                                   (library ? "the driver's libcuda.so.1 is there"
                                            : "nor is a driver: libcuda.so.1 is not there")});
  const std::string runtime = "runtime " + version_text(info.runtime);
  if (info.emulated)
    return findings.push_back(
        {Level::note, "CUDA", "emulated, for tests: GPUs are threads of the CPU; " + runtime});
  if (info.driver == 0)
    return findings.push_back(
        {Level::note, "CUDA",
         runtime + ", and no driver: " +
             (library ? "libcuda.so.1 is there but does not start" : "libcuda.so.1 is not there")});
  const std::string text = runtime + ", the driver runs up to " + version_text(info.driver);
  const bool old = info.driver / 1000 < info.runtime / 1000;
  findings.push_back(
      {old || !info.problem.empty() ? Level::problem : Level::ok, "CUDA",
       text + (old ? ": install a newer driver" : "") + (info.problem.empty() ? "" : "; " + info.problem)});
}

// "all reach each other", or the pairs that do not.
std::string peers_text(const GpuInfo& info) {
  std::string apart;
  for (std::size_t i = 0; i < info.peers.size(); ++i) {
    for (std::size_t j = i + 1; j < info.peers.size(); ++j) {
      if (info.peers[i][j] && info.peers[j][i]) continue;
      apart += (apart.empty() ? "" : ", ") + std::to_string(i) + " and " + std::to_string(j);
    }
  }
  return apart.empty() ? "all reach each other's memory" : "no direct way between " + apart;
}

void examine_devices(Findings& findings, const GpuInfo& info) {
  if (!info.built) return;
  if (info.gpus.empty()) return findings.push_back({Level::note, "GPUs", "none"});
  for (std::size_t i = 0; i < info.gpus.size(); ++i)
    findings.push_back({Level::ok, "gpu(" + std::to_string(i) + ")", info.gpus[i]});
  if (info.gpus.size() > 1) findings.push_back({Level::ok, "GPUs", peers_text(info)});
}

void examine_products(Findings& findings, const GpuInfo& info) {
  if (!info.built) return;
  const std::string file = find_library({"libcublasLt.so.13", "libcublasLt.so.12"});
  if (!file.empty()) return findings.push_back({Level::ok, "cuBLASLt", file});
  findings.push_back(
      {Level::note, "cuBLASLt",
       "neither libcublasLt.so.13 nor .12 in HEDDLE_CUDA_LIBRARIES, nor where the loader looks: Heddle's own "
       "kernels compute products"});
}

void examine_nccl(Findings& findings, const GpuInfo& info) {
  if (!nccl()) {
    const bool emulated = info.built && info.emulated;
    return findings.push_back({Level::note, "NCCL",
                               (info.built && !emulated ? nccl_missing() : std::string("not in this build")) +
                                   ": no collectives on GPUs; docs/comm.md"});
  }
  try {
    const int devices = nccl()->devices();
    findings.push_back({devices ? Level::ok : Level::note, "NCCL",
                        nccl()->version() + ", " + std::to_string(devices) +
                            (devices == 1 ? " GPU" : " GPUs") + " for HEDDLE_COMM_BACKEND=nccl"});
  } catch (const std::exception& error) {
    findings.push_back({Level::problem, "NCCL", error.what()});
  }
}

}  // namespace

void examine_gpus(Findings& findings) {
  const GpuInfo info = gpu_info();
  examine_driver(findings, info);
  examine_devices(findings, info);
  examine_products(findings, info);
  examine_nccl(findings, info);
}

}  // namespace heddle::comm_detail
