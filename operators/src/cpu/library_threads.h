// Libraries with threads of their own are held to one: an op's parallelism comes from parallel_for.
#pragma once

namespace heddle::cpu_kernels {

// While one lives, OpenMP (which oneDNN runs on) uses one thread for calls from this thread. OpenBLAS, whose setting
// is the process's, is set to one thread by the first.
class OneLibraryThread {
 public:
  OneLibraryThread();
  ~OneLibraryThread();
  OneLibraryThread(const OneLibraryThread&) = delete;
  OneLibraryThread& operator=(const OneLibraryThread&) = delete;

 private:
  int previous_;
};

}  // namespace heddle::cpu_kernels
