// A var that outlives the default engine at exit: it may be waited for and dropped, and a push on it is refused.
// Exits with 0 if all of that holds.
#include <cstdio>
#include <stdexcept>
#include <unistd.h>

#include <heddle/engine.h>

namespace {

constexpr int kOps = 1000;
int value = 0;

// Made before the engine, so destroyed after it was shut down.
struct Late {
  heddle::Var var;

  bool refused() {
    try {
      heddle::default_engine().push([] {}, {.mutate = {var}});
    } catch (const heddle::Error&) {
      return true;
    }
    return false;
  }

  ~Late() {
    const bool all_ran = value == kOps;
    heddle::default_engine().wait(var);
    const bool ok = all_ran && refused();
    var = heddle::Var();
    if (!ok) std::fprintf(stderr, "engine_exit: %d of %d ops ran, or a push was not refused\n", value, kOps);
    if (!ok) _exit(1);
  }
} late;

}  // namespace

int main() {
  late.var = heddle::default_engine().new_var();
  for (int i = 0; i < kOps; ++i) heddle::default_engine().push([] { ++value; }, {.mutate = {late.var}});
  return 0;
}
