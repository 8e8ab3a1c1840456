// Makes each allocation of a call fail in turn: the call throws, and leaves the engine usable. A separate
// program, because it replaces operator new.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <heddle/engine.h>
#include <heddle/trace.h>

namespace {

constexpr int kOff = -1;
// Number of allocations that succeed on this thread before one fails; kOff: none fails.
thread_local int until_failure = kOff;
thread_local bool has_failed = false;

void* allocate(std::size_t bytes) {
  if (until_failure != kOff && until_failure-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

void* allocate_or_null(std::size_t bytes) noexcept try {
  return allocate(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

// Replaces all forms of operator new, since those of a sanitizer do not call each other.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate_or_null(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace heddle;

int checked = 0;

void check(bool good, const char* what) {
  ++checked;
  if (good) return;
  std::fprintf(stderr, "engine_out_of_memory: %s\n", what);
  std::exit(1);
}

// Repeats the call, and makes its first allocation fail, then its second, and so on until there is none left
// to fail. Returns how often the call did not throw: at least once, the last time.
template <class F> int fail_each(F&& call) {
  for (int failing = 0, successes = 0;; ++failing) {
    until_failure = failing;
    has_failed = false;
    try {
      call();
      ++successes;
    } catch (const std::bad_alloc&) {
    }
    until_failure = kOff;
    if (!has_failed) return check(failing > 0, "the call allocates nothing"), successes;
  }
}

std::vector<Var> vars_of(Engine& engine, int count) {
  std::vector<Var> vars;
  for (int i = 0; i < count; ++i) vars.push_back(engine.new_var());
  return vars;
}

Access many(const std::vector<Var>& vars) {
  Access access;
  for (const Var& var : vars) access.mutate.add(var);
  return access;
}

void make_engines() {
  std::optional<Engine> engine;
  const int made = fail_each([&] {
    struct Quiet {  // ends the failures before the engine's destructor, which allocates
      std::optional<Engine>& engine;
      ~Quiet() {
        until_failure = kOff;
        engine.reset();
      }
    } end{engine};
    engine.emplace(EngineOptions{.scheduler = Scheduler::threaded, .workers = 3, .watchdog = 1000});
  });
  check(made >= 1, "no engine was made");
}

// If a push that failed kept the room that it has reserved, the pushes at the end would block for ever.
void push_with_many_vars() {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1, .max_ops = 1});
  const std::vector<Var> vars = vars_of(engine, 40);
  const Access access = many(vars);
  int ran = 0, pushed = 0;
  for (int round = 0; round < 3; ++round) {
    pushed += fail_each([&] { engine.push([&ran] { ++ran; }, access); });
    engine.wait_all();
  }
  for (int i = 0; i < 3; ++i, ++pushed) engine.push([&ran] { ++ran; }, access);
  engine.wait_all();
  check(ran == pushed, "an op that was pushed did not run, or one ran that was not");
}

void push_what_is_large() {
  struct Large {
    int* ran;
    char bytes[10000];
    void operator()() const { ++*ran; }
  };
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1, .max_ops = 2});
  const std::vector<Var> vars = vars_of(engine, 1);
  int ran = 0, pushed = 0;
  std::optional<PreparedOp> prepared;
  fail_each([&] { prepared.emplace(engine.prepare(Large{&ran, {}}, many(vars))); });
  for (int i = 0; i < 3; ++i, ++pushed) engine.push(*prepared);
  pushed += fail_each([&] {
    engine.push([&ran, held = std::vector<int>(100)] { ran += static_cast<int>(held.size()) / 100; },
                {.mutate = {vars[0]}});
  });
  engine.wait_all();
  check(ran == pushed, "an op that was prepared or is large did not run, or one ran that was not");
}

void make_vars_and_wait() {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  Var var;
  fail_each([&] { var = engine.new_var(); });
  int ran = 0;
  engine.push([&ran] { ++ran; }, {.mutate = {var}});
  // Does not test wait(), which allocates nothing if this thread runs the op.
  fail_each([&] { engine.wait_until(var, std::chrono::steady_clock::now() + std::chrono::hours(1)); });
  check(ran == 1, "the op before the wait did not run");
}

// In a forked child the allocator may be locked, so fork handlers must not allocate.
void fork_allocates_nothing() {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const Var var = engine.new_var();
  engine.push([] {}, {.mutate = {var}});
  trace::stop();  // initialises the trace recorder, so that its fork handler is tested too
  engine.wait(var);
  until_failure = 0;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  until_failure = kOff;
  int status = -1;
  check(child > 0 && waitpid(child, &status, 0) == child, "there is no child");
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "fork() allocates in the child");
}

}  // namespace

int main() {
  // Makes the allocations that happen once per process before any of them can fail.
  std::optional<Engine>(std::in_place, EngineOptions{.scheduler = Scheduler::threaded, .workers = 1}).reset();
  make_engines();
  push_with_many_vars();
  push_what_is_large();
  make_vars_and_wait();
  fork_allocates_nothing();
  return checked > 0 ? 0 : 1;
}
