// OpenMP tasks compiled by clang: loads the library that has engine_openmp.cc and clang's OpenMP runtime.
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

#include "engine/engine_peer.h"

namespace heddle::bench {

namespace {

using Make = decltype(&heddle_bench_openmp);

Make load() {
  // KMP_BLOCKTIME: milliseconds that the runtime's threads spin after a session. The default of 200 would
  // disturb the next subject.
  setenv("KMP_BLOCKTIME", "5", 0);
  void* library = dlopen(CLANG_OPENMP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* make = library ? dlsym(library, "heddle_bench_openmp") : nullptr;
  if (!make) throw std::runtime_error(dlerror());
  return reinterpret_cast<Make>(make);
}

}  // namespace

std::optional<PeerKind> clang_openmp_peer() {
  if (std::string(CLANG_OPENMP_LIBRARY).empty()) return std::nullopt;
  return PeerKind{"clang_omp", Pushing::works_too, [](const Program& program, Cell* cells, int workers) {
                    static const Make make = load();
                    return std::unique_ptr<Peer>(make(program, cells, workers));
                  }};
}

}  // namespace heddle::bench
