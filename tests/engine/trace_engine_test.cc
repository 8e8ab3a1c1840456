// Tracing of a whole engine: what the core records, as the trace shows it.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <heddle/engine.h>
#include <heddle/stream_ops.h>
#include <heddle/trace.h>

#include "arguments.h"
#include "core/core.h"

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

// The events of that phase and category, by name.
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
    engine.core().scheduler().enter_submitted();  // each waits for the one before when that ends
    open = true;
    open.notify_all();
    engine.wait_all();
  });
  const auto ops = named(events, "X", "op");
  REQUIRE(ops.size() == 4);
  CHECK_FALSE(ops.at("gate")["args"].contains("by"));
  const char* chain[] = {"gate", "first", "second", "third"};
  for (int i = 1; i < 4; ++i) {
    const Json &before = ops.at(chain[i - 1]), &after = ops.at(chain[i]);
    CHECK(after["args"]["by"] == before["args"]["seq"]);
    CHECK(after["args"]["engine"] == before["args"]["engine"]);
    CHECK(after["ts"].get<double>() >= end_of(before) - 0.1);  // clocks of two cores
  }
  CHECK(ops.at("third")["args"]["at"] == std::string(where.file_name()) + ":" + std::to_string(where.line()));
  std::set<std::string> lanes;
  for (const Json& event : events) {
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
  }
  for (const std::string& lane : lanes) CHECK(lane.find("worker") != std::string::npos);
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
    CHECK(issues.size() == 3);  // what is skipped is not issued
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

}  // namespace
