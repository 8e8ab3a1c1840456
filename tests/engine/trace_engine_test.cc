// Traces of whole engines: the events that an engine's core records.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/stream_ops.h>
#include <heddle/trace.h>

#include "arguments.h"
#include "core/core.h"
#include "trace/trace_record.h"

namespace {

using Json = nlohmann::json;

Json traced(const std::function<void()>& program) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("heddle_engine_trace_" + std::to_string(::getpid()) + ".json");
  heddle::trace::start(path);
  program();
  CHECK(heddle::trace::stop().dropped == 0);
  std::ifstream file(path);
  Json events = Json::parse(file);
  std::filesystem::remove(path);
  return events;
}

// The events of this phase and category, by their names.
std::map<std::string, Json> named(const Json& events, const std::string& phase, const std::string& category) {
  std::map<std::string, Json> found;
  for (const Json& event : events) {
    if (event["ph"] == phase && event.value("cat", "") == category) found[event["name"]] = event;
  }
  return found;
}

double end_of(const Json& event) { return event["ts"].get<double>() + event["dur"].get<double>(); }

TEST_CASE("every op is in the trace once, after the op that let it go, on a lane of its engine") {
  const auto where = std::source_location::current();
  const Json events = traced([&] {
    heddle::Engine engine({.workers = 2});
    heddle::Var a = engine.new_var(), b = engine.new_var(), gate = engine.new_var();
    std::atomic<bool> open{false};
    engine.push([&] { open.wait(false); }, {.mutate = {gate}, .name = "gate"}, where);
    engine.push([] {}, {.read = {gate}, .mutate = {a}, .name = "first"}, where);
    engine.push([] {}, {.read = {a}, .mutate = {b}, .name = "second"}, where);
    engine.push([] {}, {.read = {b}, .name = "third"}, where);
    engine.core().scheduler().enter_submitted();  // all ops are queued on their vars before "gate" ends
    open = true;
    open.notify_all();
  });
  const auto ops = named(events, "X", "op");
  REQUIRE(ops.size() == 4);
  CHECK_FALSE(ops.at("gate")["args"].contains("by"));
  const char* chain[] = {"gate", "first", "second", "third"};
  for (int i = 1; i < 4; ++i) {
    const Json &before = ops.at(chain[i - 1]), &after = ops.at(chain[i]);
    CHECK(after["args"]["by"] == before["args"]["seq"]);
    CHECK(after["args"]["engine"] == before["args"]["engine"]);
    // May differ by 0.1 us, since the clocks of two cores may.
    CHECK(after["ts"].get<double>() >= end_of(before) - 0.1);
  }
  CHECK(ops.at("third")["args"]["at"] == std::string(where.file_name()) + ":" + std::to_string(where.line()));
  std::set<std::string> lanes;
  for (const Json& event : events) {
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
  }
  for (const std::string& lane : lanes) CHECK(lane.find("worker") != std::string::npos);
}

TEST_CASE("a thread that waits is on a lane of its own, inside an op too") {
  for (const heddle::Scheduler scheduler :
       {heddle::Scheduler::naive, heddle::Scheduler::threaded, heddle::Scheduler::fuzz}) {
    const Json events = traced([&] {
      heddle::Engine engine({.scheduler = scheduler, .workers = 1});
      heddle::Var a = engine.new_var(), b = engine.new_var();
      engine.push(
          [&] {
            engine.push([] {}, {.mutate = {b}, .name = "inner"});
            engine.wait(b);
          },
          {.mutate = {a}, .name = "outer"});
      engine.wait(a);
      engine.wait_all();
    });
    const auto ops = named(events, "X", "op");
    int waits = 0, all = 0, inside = 0;
    for (const Json& event : events) {
      if (event.value("cat", "") != "wait") continue;
      (event["name"] == "wait_all" ? all : waits) += 1;
      CHECK(event["tid"] < heddle::trace::kFirstWorkerLane);
      if (event["args"].contains("seq")) {
        ++inside;
        CHECK(event["args"]["seq"] == ops.at("outer")["args"]["seq"]);
      }
      if (!event["args"].contains("by")) continue;
      const auto by = event["args"]["by"].get<std::uint64_t>();
      const Json& op = ops.at(by == ops.at("outer")["args"]["seq"].get<std::uint64_t>() ? "outer" : "inner");
      CHECK(op["args"]["seq"] == by);
      CHECK(end_of(event) >= end_of(op) - 0.1);
    }
    CHECK(waits == 2);
    CHECK(inside == 1);
    CHECK(all == 1);
  }
}

TEST_CASE("a wait inside an op of a graph names that op of that launch") {
  const Json events = traced([] {
    heddle::Engine engine({.workers = 2});
    heddle::Var a = engine.new_var(), b = engine.new_var();
    heddle::Graph graph = engine.capture([&] {
      engine.push([] {}, {.mutate = {a}, .name = "first"});
      engine.push(
          [&] {
            engine.push([] {}, {.mutate = {b}, .name = "inner"});
            engine.wait(b);
          },
          {.mutate = {a}, .name = "outer"});
    });
    for (int i = 0; i < 3; ++i) graph.launch();
    engine.wait_all();
  });
  std::set<std::uint64_t> outer, inside;
  for (const Json& event : events) {
    if (event["name"] == "outer") outer.insert(event["args"]["seq"].get<std::uint64_t>());
    if (event["name"] == "wait") inside.insert(event["args"]["seq"].get<std::uint64_t>());
  }
  CHECK(outer.size() == 3);
  CHECK(inside == outer);
}

TEST_CASE("an asynchronous op lasts until its completion, and what follows it was let go by it") {
  const Json events = traced([] {
    heddle::Engine engine({.workers = 1});
    heddle::Var a = engine.new_var();
    std::thread completer;
    engine.push_async(
        [&](heddle::RunContext&, heddle::Completion done) {
          completer = std::thread([done = std::move(done)]() mutable { done.done(); });
        },
        {.mutate = {a}, .name = "read"});
    engine.push([] {}, {.read = {a}, .name = "use"});
    engine.wait_all();
    completer.join();
  });
  const auto read = named(events, "b", "async"), issue = named(events, "X", "issue"),
             ops = named(events, "X", "op");
  REQUIRE(read.contains("read"));
  REQUIRE(issue.contains("read"));
  CHECK(read.at("read")["ts"] == issue.at("read")["ts"]);
  CHECK(read.at("read")["args"]["seq"] == issue.at("read")["args"]["seq"]);
  if (ops.at("use")["args"].contains("by"))
    CHECK(ops.at("use")["args"]["by"] == read.at("read")["args"]["seq"]);
  CHECK(ops.at("use")["ts"].get<double>() >= end_of(read.at("read")) - 0.1);
}

TEST_CASE(
    "an op on a stream is on the stream's lane from its issue until it is done, its function on a worker's") {
  for (const heddle::Scheduler scheduler :
       {heddle::Scheduler::naive, heddle::Scheduler::threaded, heddle::Scheduler::fuzz}) {
    const Json events = traced([&] {
      heddle::Engine engine({.scheduler = scheduler, .workers = 2});
      heddle::Stream& other = engine.stream(heddle::cpu(1));
      heddle::Stream& stream = engine.stream(heddle::cpu());
      heddle::Var a = engine.new_var(), b = engine.new_var();
      const auto work = [](heddle::Stream& on) { on.enqueue([] {}); };
      engine.push([] {}, {.mutate = {a}, .name = "make"});
      engine.push_on(stream, work, {.read = {a}, .mutate = {b}, .name = "upload"});
      engine.push_on(stream, work, {.read = {b}, .mutate = {b}, .name = "scale"});
      engine.push_on(other, work, {.read = {b}, .mutate = {a}, .name = "other"});
      engine.push([] {}, {.read = {a, b}, .name = "use"});
      engine.push([] { throw std::runtime_error("lost"); }, {.mutate = {a}, .name = "fail"});
      engine.push_on(stream, work, {.read = {a}, .mutate = {b}, .name = "skipped"});
      CHECK_THROWS_AS(engine.wait_all(), heddle::AggregateError);
    });
    const auto ops = named(events, "X", "op"), issues = named(events, "X", "issue");
    REQUIRE(ops.size() == 7);
    std::map<int, std::string> lanes;
    for (const Json& event : events) {
      if (event["name"] == "thread_name") lanes[event["tid"].get<int>()] = event["args"]["name"];
    }
    const auto lane = [&](const Json& event) { return lanes[event["tid"].get<int>()]; };
    for (const char* name : {"upload", "scale", "other", "skipped"}) {
      const bool elsewhere = name == std::string("other");
      CHECK(lane(ops.at(name)).ends_with(elsewhere ? " stream 0" : " stream 1"));
      if (name == std::string("skipped")) continue;
      const Json &op = ops.at(name), &issue = issues.at(name);
      CHECK(lane(issue).find(" worker ") != std::string::npos);
      CHECK(issue["args"]["seq"] == op["args"]["seq"]);
      CHECK_FALSE(issue["args"].contains("by"));
      CHECK(op["ts"].get<double>() >= issue["ts"].get<double>() - 0.1);
    }
    CHECK(issues.size() == 3);  // the skipped op is not issued
    CHECK(ops.at("scale")["ts"].get<double>() >= end_of(ops.at("upload")) - 0.1);
    CHECK(ops.at("use")["ts"].get<double>() >= end_of(ops.at("other")) - 0.1);
  }
}

TEST_CASE("a program has as many ops in the trace as it pushed, under each scheduler") {
  for (const heddle::Scheduler scheduler :
       {heddle::Scheduler::naive, heddle::Scheduler::threaded, heddle::Scheduler::fuzz}) {
    constexpr int kOps = heddle::test::kSanitized ? 2000 : 20'000;
    const Json events = traced([&] {
      heddle::Engine engine({.scheduler = scheduler, .workers = 2});
      std::vector<heddle::Var> vars;
      for (int i = 0; i < 8; ++i) vars.push_back(engine.new_var());
      for (int i = 0; i < kOps; ++i) engine.push([] {}, {.read = {vars[i % 8]}, .mutate = {vars[i * 5 % 7]}});
      engine.wait_all();
    });
    std::set<std::uint64_t> sequences;
    bool forward = true;
    for (const Json& event : events) {
      if (event["ph"] != "X" || event["cat"] != "op") continue;
      sequences.insert(event["args"]["seq"].get<std::uint64_t>());
      if (event["args"].contains("by")) forward &= event["args"]["by"] < event["args"]["seq"];
    }
    CHECK(sequences.size() == kOps);
    CHECK(forward);
  }
}

std::int64_t nanoseconds(const Json& microseconds) {
  return static_cast<std::int64_t>(std::llround(microseconds.get<double>() * 1000));
}

// An arrow: the lane and time of its tail, and of its head.
using ArrowPlaces = std::array<std::int64_t, 4>;

// The arrows that the trace should have, computed from the numbers of ops in its records.
std::vector<ArrowPlaces> wanted_arrows(const Json& events) {
  using Place = std::pair<std::int64_t, std::int64_t>;
  std::map<std::pair<int, std::uint64_t>, Place> starts;
  const auto key = [](const Json& event, const char* number) {
    return std::pair(event["args"]["engine"].get<int>(), event["args"][number].get<std::uint64_t>());
  };
  const auto place = [](const Json& event, bool last) {
    const std::int64_t length = nanoseconds(event["dur"]);
    return Place(event["tid"], nanoseconds(event["ts"]) + (last && length > 0 ? length - 1 : 0));
  };
  for (const Json& event : events) {
    const std::string category = event.value("cat", "");
    if (category == "op") starts.try_emplace(key(event, "seq"), place(event, true));
    if (category == "async" && event["ph"] == "b") starts[key(event, "seq")] = place(event, false);
  }
  std::vector<ArrowPlaces> wanted;
  for (const Json& event : events) {
    if (event["ph"] != "X" || !event["args"].contains("by")) continue;
    const auto start = starts.find(key(event, "by"));
    if (start == starts.end()) continue;
    const Place end = place(event, event["cat"] == "wait" || event["cat"] == "blocked");
    wanted.push_back({start->second.first, start->second.second, end.first, end.second});
  }
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

// The arrows that the trace has. Checks that each has an id of its own.
std::vector<ArrowPlaces> drawn_arrows(const Json& events) {
  std::map<std::uint64_t, std::vector<Json>> tails, heads;
  for (const Json& event : events) {
    if (event.value("cat", "") != "dep") continue;
    (event["ph"] == "s" ? tails : heads)[event["id"].get<std::uint64_t>()].push_back(event);
  }
  CHECK(tails.size() == heads.size());
  std::vector<ArrowPlaces> drawn;
  for (const auto& [id, tail] : tails) {
    REQUIRE(tail.size() == 1);
    REQUIRE(heads[id].size() == 1);
    const Json& head = heads[id][0];
    drawn.push_back({tail[0]["tid"], nanoseconds(tail[0]["ts"]), head["tid"], nanoseconds(head["ts"])});
  }
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

// Runs random ops on eight vars. For odd seeds the engine has a bound on ops in flight.
void run_random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  heddle::Engine engine({.workers = 1 + static_cast<int>(seed % 3), .max_ops = seed % 2 ? 50u : 0u});
  heddle::Engine other({.workers = 1});
  std::vector<heddle::Var> vars, others;
  for (int i = 0; i < 8; ++i) vars.push_back(engine.new_var()), others.push_back(other.new_var());
  const auto any = [&]() -> const heddle::Var& { return vars[random() % vars.size()]; };
  heddle::Graph graph = engine.capture([&] {
    for (int i = 0; i < 5; ++i) engine.push([] {}, {.read = {any()}, .mutate = {any()}, .name = "in graph"});
  });
  for (int i = 0; i < 1000; ++i) {
    const auto choice = random() % 20;
    if (choice == 0) {
      graph.launch();
    } else if (choice == 1) {
      engine.push_async([](heddle::RunContext&, heddle::Completion done) { done.done(); },
                        {.mutate = {any()}});
    } else if (choice == 2) {
      other.push([] {}, {.read = {others[0]}, .mutate = {others[random() % 8]}});
    } else if (choice == 3) {
      engine.wait(any());
    } else {
      engine.push([] {}, {.read = {any(), any()}, .mutate = {any()}});
    }
  }
  engine.wait_all();
  other.wait_all();
}

TEST_CASE("each arrow of a trace has an id of its own, and all are drawn") {
  std::size_t arrows = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Json events = traced([&] { run_random_program(seed); });
    const auto wanted = wanted_arrows(events);
    CHECK(drawn_arrows(events) == wanted);
    arrows += wanted.size();
  }
  CHECK(arrows > 0);
}

TEST_CASE("an op that lets many go has an arrow to each") {
  const Json events = traced([] {
    heddle::Engine engine({.workers = 2});
    heddle::Var a = engine.new_var();
    std::atomic<bool> open{false};
    engine.push([&] { open.wait(false); }, {.mutate = {a}, .name = "source"});
    for (int i = 0; i < 20; ++i) engine.push([] {}, {.read = {a}, .name = "reader"});
    engine.core().scheduler().enter_submitted();
    open = true;
    open.notify_all();
    engine.wait_all();
  });
  const auto arrows = drawn_arrows(events);
  CHECK(arrows.size() == 20);
  CHECK(arrows == wanted_arrows(events));
}

TEST_CASE("a push that waits for room is a slice of its thread, between the op that gave room and its own") {
  for (const heddle::Scheduler scheduler : {heddle::Scheduler::threaded, heddle::Scheduler::fuzz}) {
    std::uint32_t line = 0;
    const Json events = traced([&] {
      heddle::Engine engine({.scheduler = scheduler, .workers = 1, .max_ops = 1});
      std::atomic<bool> pushed{false};
      std::thread opens([&] {
        pushed.wait(false);
        engine.push([] {}, {.name = "last"});
      });
      engine.push([] {}, {.name = "first"});
      for (int i = 0; i < 200; ++i) {
        line = std::source_location::current().line() + 1;
        engine.push([] { std::this_thread::yield(); }, {.name = "more"});
      }
      pushed = true;
      pushed.notify_all();
      opens.join();
      engine.wait_all();
    });
    std::map<std::uint64_t, Json> ops;
    for (const Json& event : events) {
      if (event.value("cat", "") == "op") ops[event["args"]["seq"].get<std::uint64_t>()] = event;
    }
    int blocked = 0, on_line = 0;
    for (const Json& event : events) {
      if (event.value("cat", "") != "blocked") continue;
      ++blocked;
      CHECK(event["name"] == "blocked push");
      const auto number = event["args"]["seq"].get<std::uint64_t>();
      REQUIRE(ops.contains(number));
      CHECK(event["args"]["at"] == ops[number]["args"]["at"]);
      on_line += event["args"]["at"].get<std::string>().ends_with(":" + std::to_string(line));
      CHECK(ops[number]["ts"].get<double>() >= end_of(event) - 0.1);
      REQUIRE(event["args"].contains("by"));
      const auto by = event["args"]["by"].get<std::uint64_t>();
      CHECK(by < number);
      CHECK(end_of(ops[by]) <= end_of(event) + 0.1);
      CHECK(event["tid"] != ops[number]["tid"]);
    }
    CHECK(blocked > 0);
    CHECK(on_line > 0);
  }
}

}  // namespace
