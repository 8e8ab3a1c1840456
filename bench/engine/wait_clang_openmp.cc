// OpenMP tasks compiled by clang: loads the library that has wait_openmp.cc and clang's OpenMP runtime.
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

#include "engine/wait_peer.h"

namespace heddle::bench {

std::unique_ptr<WaitPeer> clang_openmp_waits(int workers) {
  if (std::string(CLANG_OPENMP_LIBRARY).empty()) return nullptr;
  // KMP_BLOCKTIME: milliseconds that the runtime's threads spin after a parallel region. The default of 200
  // would disturb the next subject.
  setenv("KMP_BLOCKTIME", "5", 0);
  void* library = dlopen(CLANG_OPENMP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* make = library ? dlsym(library, "heddle_bench_openmp_waits") : nullptr;
  if (!make) throw std::runtime_error(dlerror());
  return std::unique_ptr<WaitPeer>(reinterpret_cast<decltype(&heddle_bench_openmp_waits)>(make)(workers));
}

}  // namespace heddle::bench
