// wait_openmp.cc once more, by clang and its library, compiled into a library that is loaded here.
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

#include "engine/wait_peer.h"

namespace heddle::bench {

std::unique_ptr<WaitPeer> clang_openmp_waits(int workers) {
  if (std::string(CLANG_OPENMP_LIBRARY).empty()) return nullptr;
  setenv("KMP_BLOCKTIME", "5",
         0);  // milliseconds its threads spin after a parallel region; else 200, into the next subject
  void* library = dlopen(CLANG_OPENMP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* make = library ? dlsym(library, "heddle_bench_openmp_waits") : nullptr;
  if (!make) throw std::runtime_error(dlerror());
  return std::unique_ptr<WaitPeer>(reinterpret_cast<decltype(&heddle_bench_openmp_waits)>(make)(workers));
}

}  // namespace heddle::bench
