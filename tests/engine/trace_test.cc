#include "trace/trace.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <heddle/engine_options.h>
#include <heddle/error.h>
#include <heddle/trace.h>

#include "arguments.h"
#include "trace/trace_arrows.h"
#include "trace/trace_buffer.h"
#include "trace/trace_file.h"

namespace {

using namespace heddle::trace;
using Json = nlohmann::json;

// The path of a temporary file. The destructor removes the file.
class Path {
 public:
  explicit Path(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("heddle_" + std::to_string(::getpid()) + "_" + name)) {}
  ~Path() { std::filesystem::remove(path_); }
  operator std::string() const { return path_; }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  Json events() const { return Json::parse(text()); }

 private:
  std::string path_;
};

std::vector<Json> of(const Json& events, const std::string& phase, const std::string& category = "") {
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event["ph"] == phase && event.value("cat", "") == category) found.push_back(event);
  }
  return found;
}

void record(const char* name, std::uint32_t engine, std::uint64_t sequence, std::uint64_t by = kNone) {
  const Tick start = now();
  op_ran(worker_lane(engine, 0), {name, std::source_location::current(), engine, sequence, by}, start, now());
}

TEST_CASE("nothing is recorded before start, after stop, nor written twice") {
  const Path path("off.json");
  CHECK_FALSE(on());
  CHECK_FALSE(running());
  CHECK(stop().path.empty());
  start(path);
  CHECK(on());
  CHECK(running());
  CHECK_THROWS_AS(start(Path("second.json")), heddle::Error);
  record("one", 1, 0);
  const TraceSummary summary = stop();
  CHECK_FALSE(on());
  CHECK(summary.path == std::string(path));
  CHECK(summary.records == 1);
  CHECK(summary.dropped == 0);
  CHECK(summary.error.empty());
  CHECK(summary.bytes == path.text().size());
  CHECK(of(path.events(), "X", "op").size() == 1);
  CHECK(stop().path.empty());
}

TEST_CASE(
    "an op has its name, place, lane, number and times; arrows lead from the end of one to the start of the "
    "next") {
  const Path path("op.json");
  start(path);
  const Tick begin = now();
  while (now() - begin < 30'000) {
  }
  const Tick middle = now();
  while (now() - middle < 30'000) {
  }
  const Tick end = now();
  const auto where = std::source_location::current();
  op_ran(worker_lane(3, 2), {"first", where, 3, 7, kNone}, begin, middle);
  op_ran(worker_lane(3, 1), {"second", where, 3, 9, 7}, middle, end);
  stop();
  const Json events = path.events();
  const auto ops = of(events, "X", "op");
  REQUIRE(ops.size() == 2);
  CHECK(ops[0]["name"] == "first");
  CHECK(ops[0]["tid"] == worker_lane(3, 2));
  CHECK(ops[0]["pid"] == ::getpid());
  CHECK(ops[0]["args"]["seq"] == 7);
  CHECK(ops[0]["args"]["engine"] == 3);
  CHECK_FALSE(ops[0]["args"].contains("by"));
  CHECK(ops[0]["args"]["at"] == std::string(where.file_name()) + ":" + std::to_string(where.line()));
  CHECK(ops[1]["args"]["by"] == 7);
  const double first_end = ops[0]["ts"].get<double>() + ops[0]["dur"].get<double>();
  CHECK(ops[0]["dur"].get<double>() > 1);
  CHECK(ops[1]["ts"].get<double>() == doctest::Approx(first_end).epsilon(1e-6));

  const auto tails = of(events, "s", "dep"), heads = of(events, "f", "dep");
  REQUIRE(tails.size() == 1);
  REQUIRE(heads.size() == 1);
  CHECK(heads[0]["id"] == tails[0]["id"]);
  CHECK(heads[0]["bp"] == "e");
  CHECK(heads[0]["tid"] == ops[1]["tid"]);
  CHECK(heads[0]["ts"] == ops[1]["ts"]);
  CHECK(tails[0]["tid"] == ops[0]["tid"]);
  CHECK(tails[0]["ts"].get<double>() >= ops[0]["ts"].get<double>());
  CHECK(tails[0]["ts"].get<double>() < first_end);

  std::map<std::string, Json> named;
  for (const Json& event : of(events, "M"))
    named[event["name"].get<std::string>() + event.value("tid", Json()).dump()] = event;
  CHECK(named["thread_name" + std::to_string(worker_lane(3, 2))]["args"]["name"] == "engine 3 worker 2");
  CHECK(named["heddle_trace_endnull"]["args"] == Json{{"records", 2}, {"dropped", 0}});
  CHECK(named["heddle_tracenull"]["args"]["version"] == 1);
}

TEST_CASE("asynchronous ops and waits have events of their own") {
  const Path path("kinds.json");
  start(path);
  const Tick begin = now();
  const TraceOp op{"read", std::source_location::current(), 2, 4, 3};
  op_issued(worker_lane(2, 0), op, begin, begin + 1000);
  const std::uint32_t other_lane = [&] {
    std::uint32_t lane = 0;
    std::thread([&] {
      lane = this_thread_lane();
      op_completed(worker_lane(2, 0), op, begin, begin + 50'000);
    }).join();
    return lane;
  }();
  waited("wait", 2, kNone, 4, begin, begin + 60'000);
  stop();
  CHECK(other_lane != this_thread_lane());
  const Json events = path.events();
  const auto issue = of(events, "X", "issue"), begins = of(events, "b", "async"),
             ends = of(events, "e", "async");
  REQUIRE(issue.size() == 1);
  REQUIRE(begins.size() == 1);
  REQUIRE(ends.size() == 1);
  CHECK(begins[0]["id"] == ends[0]["id"]);
  CHECK(begins[0]["ts"] == issue[0]["ts"]);
  CHECK(begins[0]["dur"].get<double>() > 10 * issue[0]["dur"].get<double>());
  CHECK(ends[0]["ts"].get<double>() ==
        doctest::Approx(begins[0]["ts"].get<double>() + begins[0]["dur"].get<double>()));
  const auto waits = of(events, "X", "wait");
  REQUIRE(waits.size() == 1);
  CHECK(waits[0]["tid"] == this_thread_lane());
  CHECK(waits[0]["args"] == Json{{"engine", 2}, {"by", 4}});
  // No arrow leads to "read", since the op that made "read" ready is not in the trace.
  const auto heads = of(events, "f", "dep"), tails = of(events, "s", "dep");
  REQUIRE(heads.size() == 1);
  REQUIRE(tails.size() == 1);
  CHECK(heads[0]["tid"] == this_thread_lane());
  CHECK(tails[0]["tid"] == worker_lane(2, 0));
}

TEST_CASE("the ends of arrows are found in any order, of the ops that were named last") {
  Arrows arrows;
  CHECK_FALSE(arrows.add_end(7, {1, 10}));
  CHECK_FALSE(arrows.add_end(7, {2, 20}));
  const std::vector<ArrowEnd> ends = arrows.add_start(7, {3, 5});
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].lane == 1);
  CHECK(ends[1].nanoseconds == 20);
  CHECK(arrows.add_start(7, {4, 6}).empty());
  for (std::uint64_t op = 100; op < 100 + 2 * Arrows::kMost; ++op) {
    arrows.add_start(op, {0, 0});
    if (op % 1000 != 0) continue;
    // Op 7 stays known among many later ops, because it is referenced again and again.
    const auto start = arrows.add_end(7, {1, 30});
    REQUIRE(start);
    CHECK(start->lane == 4);
  }
  CHECK_FALSE(arrows.add_end(100, {1, 1}));
}

TEST_CASE("every record of several threads is written once, chunk after chunk, in the order of its thread") {
  constexpr std::uint64_t kOps = (heddle::test::kSanitized ? 2 : 5) * kChunkRecords + 17;
  constexpr std::uint32_t kThreads = 4;
  const Path path("threads.json");
  start(path);
  std::vector<std::thread> threads;
  for (std::uint32_t engine = 1; engine <= kThreads; ++engine) {
    threads.emplace_back([engine] {
      for (std::uint64_t i = 0; i < kOps; ++i) record("op", engine, i);
    });
  }
  flush();
  for (std::thread& thread : threads) thread.join();
  CHECK(stop().records == kOps * kThreads);
  std::vector<std::uint64_t> next(kThreads + 1);
  bool in_order = true;
  for (const Json& op : of(path.events(), "X", "op")) {
    in_order &= op["args"]["seq"].get<std::uint64_t>() == next[op["args"]["engine"].get<std::size_t>()]++;
  }
  CHECK(in_order);
  for (std::uint32_t engine = 1; engine <= kThreads; ++engine) CHECK(next[engine] == kOps);
}

TEST_CASE("records beyond the memory are dropped and counted, and the gap is in the trace") {
  ChunkPool pool;
  pool.set_limit(2 * kChunkBytes);
  Chunk* first = pool.take();
  REQUIRE(first);
  ThreadBuffer buffer(pool, first);
  const auto fill = [&buffer](std::uint64_t count, std::uint64_t from) {
    std::uint64_t placed = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      Record* record = buffer.place(from + i);
      if (!record) continue;
      *record = {from + i, from + i, from + i, kNone, "op", "", 0, 0, 0, Kind::op};
      buffer.commit();
      ++placed;
    }
    return placed;
  };
  CHECK(fill(2 * kChunkRecords + 100, 0) == 2 * kChunkRecords);
  CHECK(buffer.take_dropped() == 100);
  CHECK(buffer.take_dropped() == 0);
  std::vector<Record> taken;
  while (!buffer.empty()) buffer.take([&](const Record& record) { taken.push_back(record); });
  REQUIRE(taken.size() == 2 * kChunkRecords);
  CHECK(taken.back().sequence == 2 * kChunkRecords - 1);
  CHECK(fill(3, 10'000) == 3);
  taken.clear();
  while (!buffer.empty()) buffer.take([&](const Record& record) { taken.push_back(record); });
  REQUIRE(taken.size() == 4);
  CHECK(taken[0].kind == Kind::gap);
  CHECK(taken[0].other == 100);
  CHECK(taken[0].start == 2 * kChunkRecords);
  CHECK(taken[0].end == 10'000);
  CHECK(taken[1].sequence == 10'000);
  CHECK(taken[3].sequence == 10'002);
}

TEST_CASE("a trace with little memory and many records says what it lost") {
  constexpr std::uint64_t kOps = (heddle::test::kSanitized ? 8 : 40) * kChunkRecords;
  const Path path("small.json");
  start(path, {.memory = 2 * kChunkBytes});
  std::thread([] {
    for (std::uint64_t i = 0; i < kOps; ++i) record("op", 1, i);
  }).join();
  const TraceSummary summary = stop();
  const Json events = path.events();
  const auto gaps = of(events, "X", "gap");
  // The records of gaps count in summary.records, too.
  CHECK(summary.records - gaps.size() + summary.dropped == kOps);
  CHECK(of(events, "X", "op").size() + gaps.size() == summary.records);
  std::uint64_t in_gaps = 0;
  for (const Json& gap : gaps) in_gaps += gap["args"]["records"].get<std::uint64_t>();
  CHECK(in_gaps <= summary.dropped);
}

TEST_CASE("a file that may grow no further is complete, and the trace says so") {
  const Path path("full.json");
  start(path, {.file = 20'000});
  for (std::uint64_t i = 0; i < 5000; ++i) record("op", 1, i);
  const TraceSummary summary = stop();
  CHECK(summary.error.find("20000 bytes") != std::string::npos);
  CHECK(summary.bytes <= 20'000);
  CHECK(summary.bytes == path.text().size());
  CHECK(summary.dropped > 4000);
  // The file counts as full only after its last record was written, so it has one record more than counted.
  CHECK(of(path.events(), "X", "op").size() == summary.records + 1);
}

TEST_CASE("a full disk ends the trace, not the program") {
  start("/dev/full");
  record("op", 1, 1);
  const TraceSummary summary = stop();
  CHECK(summary.error.find("No space left") != std::string::npos);
  CHECK_FALSE(running());
}

TEST_CASE("a path that cannot be written is an error at the call") {
  CHECK_THROWS_WITH_AS(start("/nowhere/at/all.json"), doctest::Contains("/nowhere/at/all.json: No such file"),
                       heddle::Error);
  CHECK_FALSE(on());
}

TEST_CASE("names of any bytes give valid JSON") {
  const auto escaped = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
  };
  for (int byte = 0; byte < 128; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    CHECK(Json::parse(escaped(text)).get<std::string>() == text);
  }
  for (int byte = 128; byte < 256; ++byte) {
    CHECK(Json::parse(escaped("a" + std::string(1, static_cast<char>(byte)) + "b")) == "a\uFFFDb");
  }
  CHECK(Json::parse(escaped("\"\\</script>\n")) == "\"\\</script>\n");
  CHECK(Json::parse(escaped("Gr\u00fc\u00dfe \u4e16 \U0001F9F5")) == "Gr\u00fc\u00dfe \u4e16 \U0001F9F5");
  const std::string kept = "\uFFFD";
  CHECK(Json::parse(escaped("\xC0\x80")) == kept + kept);  // overlong encoding of U+0000: two invalid bytes
  // Overlong encoding of U+0000: three invalid bytes.
  CHECK(Json::parse(escaped("\xE0\x80\x80")) == kept + kept + kept);
  CHECK(Json::parse(escaped("\xED\xA0\x80")) == kept + kept + kept);  // encoding of half of a surrogate pair
  // Encoding of a number above U+10FFFF.
  CHECK(Json::parse(escaped("\xF4\x90\x80\x80")) == kept + kept + kept + kept);
  CHECK(Json::parse(escaped("\xE4\xB8")) == kept + kept);  // sequence that lacks its last byte

  const Path path("names.json");
  start(path);
  record("quote \" backslash \\ newline \n byte \xFF", 1, 0);
  record("", 1, 1);
  stop();
  const auto ops = of(path.events(), "X", "op");
  REQUIRE(ops.size() == 2);
  CHECK(ops[0]["name"] == "quote \" backslash \\ newline \n byte \uFFFD");
  CHECK(ops[1]["name"] == "");
}

TEST_CASE("traces start and stop while ops run") {
  constexpr int kTurns = 5, kOpsOfTurn = 3000;
  std::atomic<int> turns{0};
  std::vector<std::thread> threads;
  for (std::uint32_t engine = 1; engine <= 3; ++engine) {
    threads.emplace_back([engine, &turns] {
      for (int turn = 0; turn < kTurns; ++turn) {
        turns.wait(turn);
        for (std::uint64_t i = 0; i < kOpsOfTurn; ++i) {
          const Tick begin = on() ? now() : 0;
          for (int step = 0; step < 20'000; ++step) asm volatile("");
          if (begin) op_ran(worker_lane(engine, 0), {"op", {}, engine, i, kNone}, begin, now());
        }
      }
    });
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    const Path path("turns.json");
    turns = turn + 1;
    turns.notify_all();
    start(path, {.memory = std::size_t{1} << 20});
    flush();
    record("mine", 9, static_cast<std::uint64_t>(turn));
    const TraceSummary summary = stop();
    const Json events = path.events();
    const auto ops = of(events, "X", "op");
    CHECK(ops.size() + of(events, "X", "gap").size() == summary.records);
    // The record that this thread has made must not be in the trace of a later turn.
    std::vector<Json> mine;
    std::copy_if(ops.begin(), ops.end(), std::back_inserter(mine),
                 [](const Json& op) { return op["name"] == "mine"; });
    CHECK(mine.size() <= 1);
    for (const Json& op : mine) CHECK(op["args"]["seq"] == turn);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("what comes after a chunk that was taken to its end is not left for the next trace") {
  const Path path("chunk.json");
  start(path);
  std::thread([] {
    for (std::uint64_t i = 0; i < kChunkRecords; ++i) record("first", 1, i);
    flush();
    record("last", 1, kChunkRecords);
  }).join();
  CHECK(stop().records == kChunkRecords + 1);
}

TEST_CASE("what is flushed can be read while the trace goes on") {
  const Path path("flush.json");
  start(path);
  record("one", 1, 0);
  flush();
  const std::string text = path.text();
  CHECK(of(Json::parse(text + "]"), "X", "op").size() == 1);
  record("two", 1, 1);
  stop();
  CHECK(path.text().substr(0, text.size()) == text);
  CHECK(of(path.events(), "X", "op").size() == 2);
}

TEST_CASE("the child of a fork has no trace, and leaves its parent's alone") {
  const Path path("parent.json");
  start(path);
  record("before", 1, 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool good = !on() && !running() && stop().path.empty();
    try {
      start(path);
      good = false;  // not reached: start() throws, since the parent is writing to this file
    } catch (const heddle::Error&) {
    }
    record("in the child", 1, 5);
    ::_exit(good ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  record("after", 1, 1);
  CHECK(stop().records == 2);
  CHECK(of(path.events(), "X", "op").size() == 2);
}

// Whether a forked child may trace. ThreadSanitizer confuses a thread of a forked child with the parent's
// thread at the same address, and ends the child ("dup thread with used id"). So with it the parent may have
// no threads except the sanitizer's, which is so if the tests of this file run alone, as under ctest.
bool child_may_trace() {
  constexpr int kWithSanitizers = 2;
  if (heddle::Scheduler::HEDDLE_TEST_CHILD_SCHEDULER == heddle::Scheduler::threaded) return true;
  const std::filesystem::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) <= kWithSanitizers) return true;
  MESSAGE("not run: other tests have left threads, and ThreadSanitizer allows the child none then");
  return false;
}

TEST_CASE("the child of a fork may start a trace of its own") {
  if (!child_may_trace()) return;
  const Path path("child.json");
  start(path);
  record("before", 1, 0);
  stop();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    start(path);
    record("in the child", 1, 5);
    ::_exit(stop().records == 1 ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const auto ops = of(path.events(), "X", "op");
  REQUIRE(ops.size() == 1);
  CHECK(ops[0]["name"] == "in the child");
  CHECK(ops[0]["pid"] == child);
}

TEST_CASE("%p in a path is the process id") {
  const Path path("of_" + std::to_string(::getpid()) + ".json");
  std::string pattern = path;
  const std::string id = std::to_string(::getpid());
  for (std::size_t at; (at = pattern.find(id)) != std::string::npos;) pattern.replace(at, id.size(), "%p");
  start(pattern);
  CHECK(stop().path == std::string(path));
  CHECK(std::filesystem::exists(std::string(path)));
}

TEST_CASE("%r in a path is the rank that the launcher gave, 0 without one; the trace says it too") {
  const Path path("of_rank_7.json"), alone("of_rank_0.json");
  ::setenv("RANK", "7", 1);
  start(std::string(path).replace(std::string(path).find("rank_7"), 6, "rank_%r"));
  CHECK(stop().path == std::string(path));
  CHECK(path.events()[0]["args"]["rank"] == 7);
  ::setenv("RANK", "../7", 1);
  start(std::string(alone).replace(std::string(alone).find("rank_0"), 6, "rank_%r"));
  CHECK(stop().path == std::string(alone));
  CHECK_FALSE(alone.events()[0]["args"].contains("rank"));
  ::unsetenv("RANK");
}

int status_of_child(const std::string& path, void (*run)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HEDDLE_TRACE", path.c_str(), 1);
    start_from_environment();
    start_from_environment();  // called again, as by a second engine
    run();
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("HEDDLE_TRACE makes a trace that ends with the process") {
  if (!child_may_trace()) return;
  const Path path("environment.json");
  const int status = status_of_child(path, [] {
    record("op", 1, 0);
    std::exit(on() ? 7 : 8);
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(of(path.events(), "X", "op").size() == 1);
}

TEST_CASE("of a process that is killed, what was flushed is there") {
  if (!child_may_trace()) return;
  const Path path("killed.json");
  const int status = status_of_child(path, [] {
    record("op", 1, 0);
    flush();
    record("lost, or not", 1, 1);
    ::raise(SIGKILL);
  });
  CHECK(WIFSIGNALED(status));
  const std::string text = path.text();
  CHECK(text.find("\n]") == std::string::npos);
  CHECK(of(Json::parse(text + "]"), "X", "op").size() >= 1);
}

TEST_CASE("a HEDDLE_TRACE that cannot be written leaves the program alone") {
  const int status = status_of_child("/nowhere/at/all.json", [] { std::exit(on() ? 8 : 7); });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace
