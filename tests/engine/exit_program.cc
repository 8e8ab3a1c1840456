// --inside-op: an op calls std::exit(0), which ends the process without waiting for that op.
// --exit-with-static-engine: the same in an op of a static engine of the program.
// --destroyed-inside-op: an op destroys its engine, which aborts the process.
// --unseen-errors: 3000 ops fail, and nothing waits for them.
// No flag: a var outlives the default engine at exit; it can be waited for and destroyed, and a push on it
// throws. Exits with 0 if all of that holds.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

#include <heddle/engine.h>

namespace {

constexpr int kOps = 1000;
int value = 0;

// A static object that is constructed before the default engine, and so destroyed after that engine's
// shutdown.
struct Late {
  heddle::Var var;

  // Whether a static destructor can describe the default engine and use a new engine.
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

// An op calls exit(), so it never ends. This thread waits for the op; the shutdown at exit must not wait for
// it.
int exit_inside_op(heddle::Engine& engine) {
  heddle::Var var = engine.new_var();
  engine.push([] { std::exit(0); }, {.mutate = {var}});
  engine.wait(var);
  return 1;
}

int destroy_inside_op() {
  auto engine = std::make_unique<heddle::Engine>();
  heddle::Var var = engine->new_var();
  engine->push([&] { engine.reset(); }, {.mutate = {var}, .name = "destroys"});
  for (;;) pause();  // waits without the engine, which may be destroyed already
}

int leave_errors() {
  heddle::Engine engine;
  for (int i = 0; i < 3000; ++i)
    engine.push([] { throw std::runtime_error("two\nlines"); }, {.name = "fails"});
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view flag = count > 1 ? arguments[1] : "";
  if (flag == "--inside-op") return exit_inside_op(heddle::default_engine());
  if (flag == "--exit-with-static-engine") {
    static heddle::Engine engine;
    return exit_inside_op(engine);
  }
  if (flag == "--destroyed-inside-op") return destroy_inside_op();
  if (flag == "--unseen-errors") return leave_errors();
  late.var = heddle::default_engine().new_var();
  for (int i = 0; i < kOps; ++i) heddle::default_engine().push([] { ++value; }, {.mutate = {late.var}});
  return 0;
}
