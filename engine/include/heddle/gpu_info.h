// What this build and this machine have for GPUs, for people who look for what is missing.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct GpuInfo {
  bool built = false;               // whether the build has CUDA
  bool emulated = false;            // whether GPUs are the emulated ones of tests
  int driver = 0;                   // newest CUDA that the driver runs, such as 13000; 0: there is no driver
  int runtime = 0;                  // CUDA of the runtime library
  std::vector<std::string> gpus{};  // their names and memory, by index
  // peers[i][j]: whether gpu(i) reads the memory of gpu(j) directly.
  std::vector<std::vector<bool>> peers{};
  std::string problem{};  // why the GPUs cannot be counted, by CUDA; empty: they can
};
GpuInfo gpu_info();

}  // namespace heddle
