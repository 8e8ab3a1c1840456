// Restricts libraries that have threads of their own to the calling thread, since an op's parallelism comes
// from parallel_for.
#pragma once

namespace heddle::cpu_kernels {

// While a OneLibraryThread lives, OpenMP, on which oneDNN runs, uses one thread for calls from this thread.
// The first one in the process sets OpenBLAS to one thread permanently, because that setting is process-wide.
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
