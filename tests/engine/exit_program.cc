// With --inside-op: an op calls std::exit(0), which ends the process and does not wait for that op.
// Without: a var that outlives the default engine at exit: it may be waited for and dropped, and a push on it is refused.
// Exits with 0 if all of that holds.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <unistd.h>

#include <heddle/engine.h>

namespace {

constexpr int kOps = 1000;
int value = 0;

// Made before the engine, so destroyed after it was shut down.
struct Late {
  heddle::Var var;

  // A static destructor may look as well, and make an engine of its own.
  bool works_anew() {
    if (heddle::default_engine().describe_pending() != "no op is pending\n") return false;
    heddle::Engine fresh({.workers = 2, .watchdog = 1000});
    heddle::Var own = fresh.new_var();
    int count = 0;
    for (int i = 0; i < kOps; ++i) fresh.push([&] { ++count; }, {.mutate = {own}});
    fresh.wait(own);
    return count == kOps;
  }

  bool refused() {
    try {
      heddle::default_engine().push([] {}, {.mutate = {var}});
    } catch (const heddle::Error&) {
      return true;
    }
    return false;
  }

  ~Late() {
    if (!var) return;
    const bool all_ran = value == kOps;
    heddle::default_engine().wait(var);
    const bool ok = all_ran && refused() && works_anew();
    var = heddle::Var();
    if (!ok)
      std::fprintf(stderr, "engine_exit: %d of %d ops ran, a push was not refused, or no new engine works\n",
                   value, kOps);
    if (!ok) _exit(1);
  }
} late;

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "--inside-op") == 0) {
    heddle::Var var = heddle::default_engine().new_var();
    heddle::default_engine().push([] { std::exit(0); }, {.mutate = {var}});
    heddle::default_engine().wait(var);
    return 1;
  }
  late.var = heddle::default_engine().new_var();
  for (int i = 0; i < kOps; ++i) heddle::default_engine().push([] { ++value; }, {.mutate = {late.var}});
  return 0;
}
