// Descriptions of an engine's pending ops, and the watchdog that prints them.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>

#include "diagnostics/watch.h"

using namespace heddle;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The line of a description that begins with the title of the op `name`.
std::string line_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find('\'' + name + '\'');
    if (line.starts_with("  #") && at != std::string::npos && at < 10) return line;
  }
  return "";
}

// The lines of a description below the line of the op `name`. They list what the op waits for.
std::string causes_of(const std::string& text, const std::string& name) {
  std::string causes;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    "))
      inside = line.find("'" + name + "'") < 10;
    else if (inside)
      causes += line + "\n";
  }
  return causes;
}

// Parses the subset of DOT that the engine writes: node labels, and edges as pairs of op names.
struct DotGraph {
  std::set<std::string> nodes;  // names of the ops that are nodes
  // Pairs of names: an op that waits, and the op that it waits for.
  std::set<std::pair<std::string, std::string>> edges;
  bool well_formed = false;

  explicit DotGraph(const std::string& dot) {
    std::istringstream lines(dot);
    std::string line, id, arrow, to;
    std::vector<std::pair<std::string, std::string>> pairs;
    std::vector<std::pair<std::string, std::string>> labels;
    std::getline(lines, line);
    well_formed = line == "digraph heddle {";
    while (std::getline(lines, line) && line != "}") {
      well_formed &= line.back() == ';' && balanced(line);
      std::istringstream words(line);
      words >> id >> arrow >> to;
      if (!id.starts_with("op")) continue;
      if (arrow == "->") {
        pairs.emplace_back(id, to);
      } else {
        labels.emplace_back(id, name_in(line));
        nodes.insert(labels.back().second);
      }
    }
    well_formed &= line == "}";
    for (const auto& [from, into] : pairs) edges.emplace(named(labels, from), named(labels, into));
  }
  static bool balanced(const std::string& line) {
    bool quoted = false;
    int depth = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (quoted && line[i] == '\\')
        ++i;
      else if (line[i] == '"')
        quoted = !quoted;
      else if (!quoted)
        depth += line[i] == '[' ? 1 : line[i] == ']' ? -1 : 0;
    }
    return !quoted && depth == 0;
  }
  static std::string name_in(const std::string& line) {
    const std::size_t begin = line.find('\'');
    if (begin == std::string::npos) return contains(line, "wait()") ? "wait" : "";
    return line.substr(begin + 1, line.find('\'', begin + 1) - begin - 1);
  }
  static std::string named(const std::vector<std::pair<std::string, std::string>>& labels,
                           const std::string& id) {
    for (const auto& [known, name] : labels) {
      if (known == id) return name;
    }
    return "no such node";
  }
};

struct Gate {
  std::atomic<bool> open = false, entered = false;
  void pass() {
    entered = true;
    while (!open) std::this_thread::yield();
  }
  void await() const {
    while (!entered) std::this_thread::yield();
  }
};

// Describes the engine's pending ops until the description has all of `names`: another thread may still have
// to enter the last pushes.
std::string describe_with(const Engine& engine, const std::vector<std::string>& names) {
  for (;;) {
    std::string text = engine.describe_pending();
    if (std::all_of(names.begin(), names.end(),
                    [&](const auto& name) { return line_of(text, name) != ""; }) &&
        !contains(text, "not looked at yet")) {
      return text;
    }
    std::this_thread::yield();
  }
}

// Four pushes: "load" mutates a and is held by the gate, "scale" and "shift" read a, and "sum" reads what
// "scale" and "shift" mutate, and mutates a.
struct Diamond {
  Var a, b, c;
  int line = 0;
  void push(Engine& engine, Gate& gate) {
    a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    engine.push([&gate] { gate.pass(); }, {.mutate = {a}, .name = "load"});
    gate.await();
    line = __LINE__ + 1;
    engine.push([] {}, {.read = {a}, .mutate = {b}, .name = "scale"});
    engine.push([] {}, {.read = {a}, .mutate = {c}, .name = "shift"});
    engine.push([] {}, {.read = {b, c}, .mutate = {a}, .name = "sum"});
  }
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("what waits behind a blocked op is named, with its site and what it waits for") {
  for (int workers : {1, 2}) {
    for (double watchdog : {0.0, 1e6}) {
      CAPTURE(watchdog);
      Gate gate;
      Engine engine({.workers = workers, .watchdog = watchdog});
      Diamond diamond;
      diamond.push(engine, gate);
      const std::string text = describe_with(engine, {"load", "scale", "shift", "sum"});
      INFO(text);
      CHECK(text.starts_with("4 ops in flight:"));
      CHECK(contains(line_of(text, "load"), watchdog > 0 ? "runs for " : "runs or is about to"));
      CHECK(contains(line_of(text, "scale"), "pending_test.cc:" + std::to_string(diamond.line) + " waits"));
      CHECK(
          contains(line_of(text, "shift"), "pending_test.cc:" + std::to_string(diamond.line + 1) + " waits"));
      CHECK(contains(causes_of(text, "scale"), "to read var "));
      CHECK(contains(causes_of(text, "scale"), "which #0 'load' at "));
      CHECK(contains(causes_of(text, "sum"), "to mutate var "));
      CHECK(contains(causes_of(text, "sum"), "'scale' at "));
      CHECK(contains(causes_of(text, "sum"), "'shift' at "));
      CHECK_FALSE(contains(causes_of(text, "sum"), "'load' at "));
      CHECK(causes_of(text, "load") == "");
      gate.open = true;
      engine.wait_all();
      CHECK(engine.describe_pending() == "no op is pending\n");
    }
  }
}

TEST_CASE("the graph has an edge from what waits to what it waits for") {
  Gate gate;
  Engine engine({.workers = 2});
  Diamond diamond;
  diamond.push(engine, gate);
  describe_with(engine, {"load", "scale", "shift", "sum"});
  const DotGraph graph(engine.pending_dot());
  CHECK(graph.well_formed);
  CHECK(graph.nodes == std::set<std::string>{"load", "scale", "shift", "sum"});
  CHECK(graph.edges == std::set<std::pair<std::string, std::string>>{
                           {"scale", "load"}, {"shift", "load"}, {"sum", "scale"}, {"sum", "shift"}});
  gate.open = true;
}

TEST_CASE("names are written so that the graph stays one") {
  Gate gate;
  Engine engine({.workers = 1});
  Var var = engine.new_var();
  engine.push([&] { gate.pass(); }, {.mutate = {var}, .name = "a \"quoted\" \\ [name]\nof two lines"});
  gate.await();
  const std::string dot = engine.pending_dot();
  CHECK(contains(dot, R"(a \"quoted\" \\ [name]\nof two lines)"));
  CHECK(DotGraph(dot).well_formed);
  gate.open = true;
}

TEST_CASE("an asynchronous op whose Completion is out waits for it") {
  for (double watchdog : {0.0, 1e6}) {
    Engine engine({.workers = 2, .watchdog = watchdog});
    Var var = engine.new_var();
    std::optional<Completion> held;
    std::atomic<bool> out = false;
    engine.push_async(
        [&](RunContext&, Completion completion) {
          held = std::move(completion);
          out = true;
        },
        {.mutate = {var}, .name = "receive"});
    engine.push([] {}, {.read = {var}, .name = "use"});
    while (!out) std::this_thread::yield();
    std::string text;
    do {
      text = describe_with(engine, {"receive", "use"});
    } while (!contains(line_of(text, "receive"), "waits for its Completion"));
    CHECK(contains(causes_of(text, "use"), "'receive' at "));
    held->done();
    engine.wait(var);
  }
}

TEST_CASE(
    "readers that run are named with a watchdog, counted without; several mutations wait for the nearest "
    "one") {
  for (double watchdog : {0.0, 1e6}) {
    CAPTURE(watchdog);
    Engine engine({.workers = 3, .watchdog = watchdog});
    Var var = engine.new_var();
    Gate first, second;
    engine.push([&] { first.pass(); }, {.read = {var}, .name = "reader one"});
    engine.push([&] { second.pass(); }, {.read = {var}, .name = "reader two"});
    first.await();
    second.await();
    engine.push([] {}, {.mutate = {var}, .name = "writer one"});
    engine.push([] {}, {.mutate = {var}, .name = "writer two"});
    const std::string text = describe_with(engine, {"writer one", "writer two"});
    INFO(text);
    if (watchdog > 0) {
      CHECK(contains(causes_of(text, "writer one"), "'reader one' at "));
      CHECK(contains(causes_of(text, "writer one"), "'reader two' at "));
    } else {
      CHECK(contains(causes_of(text, "writer one"), "which 2 ops of unknown name read"));
    }
    CHECK(contains(causes_of(text, "writer two"), "'writer one' at "));
    CHECK_FALSE(contains(causes_of(text, "writer two"), "reader"));
    first.open = second.open = true;
    engine.wait_all();
  }
}

TEST_CASE("a wait inside an op shows as such, and as an edge") {
  Gate gate;
  Engine engine({.workers = 2, .watchdog = 1e6});
  Var a = engine.new_var(), b = engine.new_var();
  engine.push([&] { gate.pass(); }, {.mutate = {a}, .name = "slow"});
  gate.await();
  engine.push([&] { engine.wait(a); }, {.mutate = {b}, .name = "impatient"});
  std::string text;
  do {
    text = engine.describe_pending();
  } while (!contains(text, "wait() inside op #") || !contains(line_of(text, "impatient"), "runs for "));
  INFO(text);
  const DotGraph graph(engine.pending_dot());
  CHECK(graph.edges ==
        std::set<std::pair<std::string, std::string>>{{"impatient", "wait"}, {"wait", "slow"}});
  gate.open = true;
  engine.wait_all();
}

TEST_CASE("of a long queue the first ops are listed, the others counted") {
  Gate gate;
  Engine engine({.workers = 1});
  Var var = engine.new_var();
  engine.push([&] { gate.pass(); }, {.mutate = {var}, .name = "first"});
  gate.await();
  for (int i = 0; i < 3000; ++i) engine.push([] {}, {.mutate = {var}, .name = "later"});
  const std::string text = describe_with(engine, {"first"});
  CHECK(text.starts_with("3001 ops in flight:"));
  CHECK(contains(text, "#100 'later'"));
  CHECK_FALSE(contains(text, "#101 'later' at"));
  CHECK(contains(text, "... and 2900 more"));
  CHECK(text.size() < 50000);
  CHECK(DotGraph(engine.pending_dot()).well_formed);
  gate.open = true;
}

TEST_CASE("an op may describe its engine, whatever the scheduler") {
  for (Scheduler scheduler : {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz}) {
    CAPTURE(static_cast<int>(scheduler));
    Engine engine({.scheduler = scheduler, .watchdog = 1e6});
    Var var = engine.new_var();
    std::string text;
    engine.push([&] { text = engine.describe_pending(); }, {.mutate = {var}, .name = "introspective"});
    engine.wait_all();
    CHECK(contains(line_of(text, "introspective"), "runs for "));
    CHECK(engine.describe_pending() == "no op is pending\n");
  }
}

TEST_CASE("under load, described all the time from other threads") {
  for (const EngineOptions& options :
       {EngineOptions{.workers = 3, .watchdog = 1e6}, EngineOptions{.workers = 2},
        EngineOptions{.scheduler = Scheduler::fuzz, .seed = 5, .watchdog = 1e6}}) {
    Engine engine(options);
    std::atomic<bool> stop = false;
    std::atomic<std::size_t> described = 0;
    std::vector<std::thread> watchers;
    for (int i = 0; i < 2; ++i) {
      watchers.emplace_back([&, i] {
        do {
          described += (i ? engine.describe_pending() : engine.pending_dot()).size();
        } while (!stop);
      });
    }
    std::vector<std::int64_t> sums(8, 0);
    for (int round = 0; round < 20; ++round) {
      std::vector<Var> vars;
      for (std::size_t i = 0; i < sums.size(); ++i) vars.push_back(engine.new_var());
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t to = i % 8, from = (i * 5 + 3) % 8;
        const auto add = [&sums, to, from] { sums[to] += sums[from] % 7 + 1; };
        if (i % 3 == 0) {
          engine.push_async([add](RunContext&, Completion completion) { add(), completion.done(); },
                            {.read = {vars[from], vars[to]}, .mutate = {vars[to]}});
        } else {
          engine.push(add, {.read = {vars[from], vars[to]}, .mutate = {vars[to]}});
        }
        if (i % 50 == 49) engine.push([&engine, var = vars[from]] { engine.wait(var); });
      }
      engine.wait_all();
    }
    stop = true;
    for (std::thread& watcher : watchers) watcher.join();
    CHECK(described > 0);
    std::vector<std::int64_t> serial(8, 0);
    for (int round = 0; round < 20; ++round) {
      for (std::size_t i = 0; i < 200; ++i) serial[i % 8] += serial[(i * 5 + 3) % 8] % 7 + 1;
    }
    CHECK(sums == serial);
  }
}

TEST_CASE("a launch that took over the vars of the one before it is described, when that one is gone") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const Var a = engine.new_var(), b = engine.new_var();
  Gate first, last;
  std::atomic<int> launches = 0;
  const Graph graph = engine.capture(
      [&] {
        engine.push(
            [&] {
              const int launch = ++launches;
              if (launch == 1) first.pass();
              if (launch == 3) last.pass();
            },
            {.mutate = {a, b}});
      },
      "step");
  graph.launch();
  first.await();
  graph.launch();
  graph.launch();
  engine.push([] {}, {.read = {a}, .name = "behind"});
  (void)describe_with(engine, {"behind"});  // returns when all ops are entered
  first.open = true;
  last.await();
  const std::string text = describe_with(engine, {"step", "behind"});
  CHECK(contains(causes_of(text, "behind"), "'step'"));
  last.open = true;
  engine.wait_all();
}

// An engine whose stream does not move. "upload" is issued on the stream, "use" reads its result, and
// "overwrite" and "next" are queued behind "upload" and "use".
struct Hung {
  explicit Hung(double watchdog)
      : engine({.scheduler = Scheduler::threaded, .workers = 2, .watchdog = watchdog}) {
    const HostStreamOptions by_hand{.stepped = true};
    auto made = std::make_unique<HostStream>(cpu(1), Lane::copy_in, by_hand);
    stream = made.get();
    engine.adopt_stream(std::move(made));
    std::atomic<bool> issued = false;
    engine.push_on(*stream, [&](Stream&) { issued = true; }, {.mutate = {x}, .name = "upload"});
    while (!issued) std::this_thread::yield();
    engine.push([] {}, {.read = {x}, .mutate = {y}, .name = "use"});
    engine.push([] {}, {.mutate = {x}, .name = "overwrite"});
    engine.push([] {}, {.read = {x, y}, .name = "next"});
  }
  ~Hung() {
    std::atomic<bool> done = false;
    std::thread waits([&] { engine.wait_all(), done = true; });
    while (!done) stream->step();
    waits.join();
  }
  Hung(const Hung&) = delete;
  Hung& operator=(const Hung&) = delete;
  Engine engine;
  HostStream* stream = nullptr;
  Var x = engine.new_var(), y = engine.new_var();
};

TEST_CASE("what a stream has not done is described as such, and so is what is kept back for it") {
  Hung hung(1e6);
  // Whether workers have returned from issuing "upload", and have found that "use" must wait.
  const auto settled = [](const std::string& text) {
    return contains(line_of(text, "upload"), "was issued on stream 0 (cpu(1), copy in) ") &&
           contains(line_of(text, "use"), " for work on stream 0 (cpu(1), copy in)");
  };
  std::string text;
  while (!settled(text)) text = describe_with(hung.engine, {"upload", "use", "overwrite", "next"});
  CHECK(contains(text, "4 ops in flight"));
  CHECK(contains(line_of(text, "use"), "is kept back"));
  CHECK(contains(causes_of(text, "overwrite"), "'use'"));
  CHECK(contains(causes_of(text, "next"), "'overwrite'"));
  const DotGraph graph(hung.engine.pending_dot());
  CHECK(graph.well_formed);
  CHECK(graph.nodes.contains("upload"));
}

TEST_CASE("without the watchdog too, an op that is kept back for a stream is not said to run") {
  Hung hung(0);
  std::string use;
  while (!contains(use, "is kept back for work on streams")) {
    use = line_of(describe_with(hung.engine, {"use", "overwrite"}), "use");
  }
  CHECK_FALSE(contains(use, "runs"));
}

TEST_CASE("the watchdog finds a stream that hangs") {
  const std::string path = "watch_stream_" + std::to_string(getpid()) + ".dot";
  REQUIRE(setenv("HEDDLE_WATCHDOG_DOT", path.c_str(), 1) == 0);
  {
    Hung hung(0.02);
    std::string dot;
    while (!contains(dot, "was issued on stream 0") || !contains(dot, "}\n")) dot = read_file(path);
    CHECK(DotGraph(dot).nodes.contains("upload"));
  }
  unsetenv("HEDDLE_WATCHDOG_DOT");
  std::remove(path.c_str());
}

TEST_CASE("a report is due when nothing ended for the limit, and again after twice as long") {
  using Time = detail::StallTimer::Time;
  detail::StallTimer timer(Time(10));
  CHECK_FALSE(timer.due(Time(100), 0, true));
  CHECK_FALSE(timer.due(Time(109), 0, true));
  CHECK_FALSE(timer.due(Time(115), 1, true));  // not due: one op has ended since the last look
  CHECK_FALSE(timer.due(Time(124), 1, true));
  CHECK(timer.due(Time(125), 1, true));
  CHECK(timer.stalled() == Time(10));
  CHECK_FALSE(timer.due(Time(134), 1, true));
  CHECK(timer.due(Time(135), 1, true));
  CHECK_FALSE(timer.due(Time(154), 1, true));
  CHECK(timer.due(Time(155), 1, true));
  CHECK_FALSE(timer.due(Time(156), 2, true));
  CHECK_FALSE(timer.due(Time(165), 2, true));
  CHECK(timer.due(Time(166), 2, true));
}

// Lets sanitizers see whether the description reads a freed var: an op releases its vars one by one, and each
// may be freed then.
TEST_CASE("an engine may be described while vars that its ops read go away") {
  for (Scheduler scheduler : {Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    Var kept = engine.new_var();
    int ran = 0;
    std::atomic<bool> over = false;
    std::thread observer([&] {
      while (!over) {
        CHECK_FALSE(engine.describe_pending().empty());
        CHECK(engine.pending_dot().starts_with("digraph"));
      }
    });
    for (int i = 0; i < 20'000; ++i) {
      Var passing = engine.new_var(), other = engine.new_var();
      engine.push([&] { ++ran; }, {.read = {passing, other}, .mutate = {kept}});
    }
    engine.wait(kept);
    over = true;
    observer.join();
    CHECK(ran == 20'000);
  }
}

TEST_CASE("no report is due while ops end, or none is in flight") {
  using Time = detail::StallTimer::Time;
  detail::StallTimer timer(Time(10));
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(timer.due(Time(9 * i), static_cast<std::uint64_t>(i), true));
  for (int i = 1000; i < 2000; ++i) CHECK_FALSE(timer.due(Time(9 * i), 1000, false));
  CHECK_FALSE(timer.due(Time(18000), 1000, true));
}

TEST_CASE("the watchdog writes the graph of a stall to the file it was told") {
  const std::string path = "pending_test_" + std::to_string(getpid()) + ".dot";
  setenv("HEDDLE_WATCHDOG_DOT", path.c_str(), 1);
  for (Scheduler scheduler : {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 1, .watchdog = 0.01});
    Var var = engine.new_var();
    // The op stalls until the watchdog has reported it.
    engine.push(
        [&] {
          while (!contains(read_file(path), "\n}\n")) std::this_thread::yield();
        },
        {.mutate = {var}, .name = "stalls"});
    engine.wait(var);
    std::string dot;
    do {
      dot = read_file(path);
    } while (!dot.ends_with("\n}\n"));
    CHECK(DotGraph(dot).nodes.contains("stalls"));
    CHECK(std::remove(path.c_str()) == 0);
  }
  unsetenv("HEDDLE_WATCHDOG_DOT");
}

TEST_CASE("bad limits of the watchdog are refused") {
  for (double bad : {-1.0, 1e10, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(Engine({.watchdog = bad}), InvalidArgument);
  }
  for (const char* bad : {"soon", "-1", "1s", "nan", "inf"}) {
    setenv("HEDDLE_WATCHDOG", bad, 1);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  setenv("HEDDLE_WATCHDOG", "2.5", 1);
  CHECK(EngineOptions::from_environment().watchdog == 2.5);
  unsetenv("HEDDLE_WATCHDOG");
}
