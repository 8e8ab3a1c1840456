#include "cpu/library_threads.h"

#include <dlfcn.h>

namespace heddle::cpu_kernels {
namespace {

// Functions are looked up by name: which OpenMP is loaded depends on oneDNN's build, which BLAS on the
// system, and each may be absent.
struct Libraries {
  int (*omp_get_max_threads)() = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;
  Libraries() {
    find("omp_get_max_threads", omp_get_max_threads);
    find("omp_set_num_threads", omp_set_num_threads);
    void (*openblas_set_num_threads)(int) = nullptr;
    find("openblas_set_num_threads", openblas_set_num_threads);
    if (openblas_set_num_threads) openblas_set_num_threads(1);
  }
  template <class Fn> static void find(const char* name, Fn& fn) {
    fn = reinterpret_cast<Fn>(dlsym(RTLD_DEFAULT, name));
  }
};

const Libraries& libraries() {
  static const Libraries found;
  return found;
}

}  // namespace

OneLibraryThread::OneLibraryThread() : previous_(1) {
  const Libraries& found = libraries();
  if (!found.omp_get_max_threads || !found.omp_set_num_threads) return;
  previous_ = found.omp_get_max_threads();
  if (previous_ != 1) found.omp_set_num_threads(1);
}

OneLibraryThread::~OneLibraryThread() {
  if (previous_ != 1) libraries().omp_set_num_threads(previous_);
}

}  // namespace heddle::cpu_kernels
