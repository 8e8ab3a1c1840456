#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "heddle_program.h"
#include "trace_events.h"

using namespace heddle::test;

namespace {

// Microseconds:  0    10    20    30    40    50    60    70    80    90   100
//   worker 0     [a: load 0-30  ][c: add 30-60  ]           [e: mul 80-100 ]
//   worker 1          [b: load 10-20]           [d: add 60-70]
// b depends on nothing, c on a, d on c, e on d.
// The longest chain: a c d e = 30 + 30 + 10 + 20 = 90, with a gap of 10 between d and e.
Json known() {
  return {lane(8, "engine 1 worker 0"),
          lane(9, "engine 1 worker 1"),
          op(8, "load", 0, 30, 1),
          op(9, "load", 10, 10, 2),
          op(8, "add", 30, 30, 3, 1),
          op(9, "add", 60, 10, 4, 3),
          op(8, "mul", 80, 20, 5, 4),
          {{"ph", "X"},
           {"cat", "wait"},
           {"name", "wait"},
           {"ts", 5},
           {"dur", 95},
           {"pid", 1},
           {"tid", 1},
           {"args", {}}},
          {{"ph", "s"}, {"cat", "dep"}, {"name", "dep"}, {"id", 1}, {"ts", 29}, {"pid", 1}, {"tid", 8}}};
}

TEST_CASE("span, busy time, critical path, names and gaps of a trace worked out by hand") {
  const Json found = report(known().dump());
  CHECK(found["ops"] == 5);
  CHECK(found["span"] == 100'000);
  CHECK(found["op_time"] == 100'000);
  CHECK(found["idle"] == 10'000);  // no op ran from 70 to 80 us
  CHECK(found["cut_off"] == false);
  CHECK(found["dependencies"] == 3);
  CHECK(found["dependencies_ignored"] == 0);

  REQUIRE(found["lanes"].size() == 3);
  CHECK(found["lanes"][0]["waiting"] == 95'000);
  CHECK(found["lanes"][0]["ops"] == 0);
  CHECK(found["lanes"][1]["name"] == "engine 1 worker 0");
  CHECK(found["lanes"][1]["ops"] == 3);
  CHECK(found["lanes"][1]["busy"] == 80'000);
  CHECK(found["lanes"][1]["busy_share"] == doctest::Approx(0.8));
  CHECK(found["lanes"][2]["busy"] == 20'000);

  const Json& path = found["critical_path"];
  CHECK(path["inside"] == 90'000);
  CHECK(path["between"] == 10'000);
  CHECK(path["share"] == doctest::Approx(0.9));
  REQUIRE(path["ops"].size() == 4);
  for (const std::size_t i : {0, 1, 2, 3}) CHECK(path["ops"][i]["seq"] == std::vector{1, 3, 4, 5}[i]);
  CHECK(path["ops"][1]["name"] == "add");
  CHECK(path["ops"][1]["at"] == "program.cc:5");
  CHECK(path["ops"][1]["start"] == 30'000);
  REQUIRE(path["names"].size() == 3);
  CHECK(path["names"][0] == Json{{"name", "add"},
                                 {"count", 2},
                                 {"total", 40e3},
                                 {"mean", 20e3},
                                 {"max", 30'000},
                                 {"share", 40e3 / 90e3}});
  CHECK(path["names"][1]["name"] == "load");  // only one of the two ops `load` is on the critical path
  CHECK(path["names"][1]["count"] == 1);
  CHECK(path["names"][2]["share"] == doctest::Approx(20.0 / 90));

  REQUIRE(found["names"].size() == 3);
  CHECK(found["names"][0] ==
        Json{{"name", "load"}, {"count", 2}, {"total", 40e3}, {"mean", 20e3}, {"max", 30'000}});
  CHECK(found["names"][1]["name"] == "add");
  CHECK(found["names"][2] ==
        Json{{"name", "mul"}, {"count", 1}, {"total", 20e3}, {"mean", 20e3}, {"max", 20'000}});

  CHECK(found["gap_count"] == 2);
  REQUIRE(found["gaps"].size() == 2);
  CHECK(found["gaps"][0] == Json{{"lane", "engine 1 worker 1"},
                                 {"start", 20'000},
                                 {"duration", 40'000},
                                 {"after", "load"},
                                 {"before", "add"}});
  CHECK(found["gaps"][1]["start"] == 60'000);
  CHECK(found["gaps"][1]["duration"] == 20'000);
}

Json blocked(double start, double length, int sequence, int by = -1) {
  Json event = op(1, "blocked push", start, length, sequence, by);
  event["cat"] = "blocked";
  return event;
}

// Microseconds:  0    10    20    30    40    50    60    70    80
//   thread 1     [push of 2 ][push of 3][push of 4 ]
//   worker 0     [1 0-20      ][2 21-40  ][3 42-60  ][4 62-80  ]
// No op depends on another op. Each push of the ops 2 to 4 waited until the op before had ended; the push of
// op 5 did not wait.
TEST_CASE("the critical path goes through pushes that waited for room") {
  const Json events = {lane(8, "engine 1 worker 0"), op(8, "work", 0, 20, 1),  op(8, "work", 21, 19, 2),
                       op(8, "work", 42, 18, 3),     op(8, "work", 62, 18, 4), op(9, "work", 60, 5, 5),
                       blocked(2, 18.5, 2, 1),       blocked(21, 20, 3, 2),    blocked(41.5, 19.5, 4, 3)};
  const Json found = report(events.dump());
  CHECK(found["ops"] == 5);
  const Json& path = found["critical_path"];
  CHECK(path["blocked_pushes"] == 3);
  REQUIRE(path["ops"].size() == 7);
  for (const std::size_t i : {0, 1, 2, 3, 4, 5, 6}) {
    CHECK(path["ops"][i]["blocked_push"] == (i % 2 == 1));
    CHECK(path["ops"][i]["seq"] == std::vector{1, 2, 2, 3, 3, 4, 4}[i]);
  }
  CHECK(path["inside"] == 20'000 + 500 + 19'000 + 1'000 + 18'000 + 1'000 + 18'000);
  CHECK(path["between"] == 500 + 1'000 + 1'000);
  REQUIRE(path["names"].size() == 2);
  CHECK(path["names"][1]["name"] == "blocked push");
  // The total of blocked pushes leaves out the time during which an op of the critical path ran.
  CHECK(path["names"][1]["total"] == 500 + 1'000 + 1'000);
  CHECK(path["names"][0]["total"] == 20'000 + 19'000 + 18'000 + 18'000);
  REQUIRE(found["lanes"].size() == 3);
  CHECK(found["lanes"][0]["waiting"] == 58'000);

  const File file(events.dump());
  const std::string text = run_heddle("trace --top 20 " + file.path()).out;
  CHECK(text.find("Critical path: 4 ops") != std::string::npos);
  CHECK(text.find("3 pushes on it waited for room: max_ops or max_bytes") != std::string::npos);
}

TEST_CASE("an op whose own push did not wait follows the last one that did, of its engine, if that is over") {
  const auto path_of = [](Json last) {
    const Json events = {op(8, "work", 0, 20, 1), op(8, "work", 21, 5, 2), std::move(last),
                         blocked(2, 18.5, 2, 1)};
    return report(events.dump())["critical_path"];
  };
  CHECK(path_of(op(9, "work", 30, 50, 3))["ops"].size() == 3);
  CHECK(path_of(op(9, "work", 10, 50, 3))["ops"].size() == 1);  // op 3 started before the blocked push ended
  Json other = op(9, "work", 30, 50, 3);
  other["args"]["engine"] = 2;
  CHECK(path_of(other)["ops"].size() == 1);
}

TEST_CASE("a push that waited without a known end of its wait, and one whose op is not there") {
  const Json events = {op(8, "work", 0, 20, 1), op(8, "work", 50, 5, 2), blocked(10, 39, 2),
                       blocked(60, 1, 7, 1)};
  const Json path = report(events.dump())["critical_path"];
  REQUIRE(path["ops"].size() == 2);
  CHECK(path["inside"] == 44'000);
}

TEST_CASE("what waits for the launch of a graph waits for all of it, not for its first op") {
  Json launch = op(8, "step", 0, 50, 1);
  launch["ph"] = "b";
  launch["cat"] = "async";
  const Json events = {op(8, "in graph", 1, 2, 1), op(8, "in graph", 3, 2, 2), launch,
                       op(8, "after", 51, 10, 3, 1)};
  CHECK(report(events.dump())["critical_path"]["inside"] == 60'000);
}

TEST_CASE("the first op of a name that takes far longer than the later ones is marked") {
  Json events = {op(8, "even", 0, 30, 1), op(8, "even", 30, 28, 2), op(8, "even", 60, 29, 3)};
  events.push_back(op(9, "cold", 0, 500, 4));
  for (int i = 0; i < 4; ++i) events.push_back(op(9, "cold", 600 + i * 10, 8, 5 + i));
  events.push_back(op(9, "late", 700, 8, 10));
  events.push_back(op(9, "late", 710, 500, 11));
  events.push_back(op(9, "late", 1300, 8, 12));
  events.push_back(op(9, "once", 1400, 500, 13));
  const Json found = report(events.dump());
  CHECK(found["first_calls"] == 492'000);
  for (const Json& name : found["names"]) CHECK(name.contains("first") == (name["name"] == "cold"));
  const File file(events.dump());
  const std::string text = run_heddle("trace " + file.path()).out;
  CHECK(text.find("(first call)") != std::string::npos);
  CHECK(text.find("First calls took 492.00 us more than later ones") != std::string::npos);
}

TEST_CASE("ops are added up by name and by the line that pushed them") {
  Json elsewhere = op(9, "add", 60, 10, 4, 2);
  elsewhere["args"]["at"] = "program.cc:9";
  const Json found =
      report(Json{lane(8, "engine 1 worker 0"), lane(9, "engine 1 worker 1"), op(8, "load", 0, 15, 1),
                  op(9, "add", 20, 30, 2), op(8, "add", 30, 20, 3, 1), elsewhere}
                 .dump());
  REQUIRE(found["names"].size() == 2);
  CHECK(found["names"][0]["count"] == 3);
  CHECK(found["names"][0]["total"] == 60e3);
  REQUIRE(found["lines"].size() == 3);
  CHECK(found["lines"][0] == Json{{"name", "add"},
                                  {"at", "program.cc:5"},
                                  {"count", 2},
                                  {"total", 50e3},
                                  {"mean", 25e3},
                                  {"max", 30'000}});
  CHECK(found["lines"][1]["name"] == "load");
  CHECK(found["lines"][2]["at"] == "program.cc:9");
  CHECK(found["lines"][2]["total"] == 10e3);
}

std::string with_single_spaces(std::string text) {
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             text.end());
  return text;
}

TEST_CASE("the report for people") {
  const File file(known().dump());
  const Outcome all = run_heddle("trace " + file.path());
  CHECK(all.status == 0);
  CHECK(holds(all.out, "5 ops in 100.00 us, 1.00 at once on average; no op ran for 10.00 us (10.0 %)"));
  CHECK(holds(all.out,
              "Critical path: 4 ops, 90.00 us in them (90.0 % of the span), 10.00 us between them (10.0 %)"));
  CHECK(holds(all.out, "program.cc:5"));
  CHECK_FALSE(holds(all.out, "more"));
  CHECK(holds(with_single_spaces(all.out), "\n add 44.4 % 2 40.00 us 20.00 us\n"));
  CHECK_FALSE(holds(all.out, "its ops, in order"));
  const Outcome path = run_heddle("trace --path " + file.path());
  CHECK(holds(path.out, "its ops, in order"));
  CHECK(holds(with_single_spaces(path.out), "\n add 30.00 us 30.00 us program.cc:5\n"));
  const Outcome some = run_heddle("trace --path --top 1 " + file.path());
  CHECK(holds(some.out, "... and 3 more"));
  CHECK(holds(some.out, "40.00 us from 20.00 us on engine 1 worker 1, after load, before add"));
  CHECK_FALSE(holds(some.out, "20.00 us from 60.00 us"));
  CHECK(run_heddle("trace - <" + file.path()).out == all.out);
}

TEST_CASE("slices that nest or overlap on a lane count once; asynchronous ops hold no lane") {
  Json events = {op(1, "outer", 0, 100, 1), op(1, "inner", 10, 20, 2), op(1, "late", 90, 20, 3)};
  events.push_back({{"ph", "X"},
                    {"cat", "issue"},
                    {"name", "read"},
                    {"ts", 120},
                    {"dur", 10},
                    {"pid", 1},
                    {"tid", 1},
                    {"args", {{"engine", 1}, {"seq", 4}}}});
  events.push_back({{"ph", "b"},
                    {"cat", "async"},
                    {"name", "read"},
                    {"ts", 120},
                    {"dur", 80},
                    {"pid", 1},
                    {"tid", 1},
                    {"id", 4},
                    {"args", {{"engine", 1}, {"seq", 4}, {"by", 1}}}});
  const Json found = report(events.dump());
  CHECK(found["ops"] == 4);
  CHECK(found["span"] == 200'000);
  CHECK(found["lanes"][0]["busy"] == 120'000);
  CHECK(found["idle"] == 10'000);
  CHECK(found["critical_path"]["inside"] == 180'000);
  REQUIRE(found["gaps"].size() == 1);
  CHECK(found["gaps"][0]["start"] == 110'000);
  CHECK(found["gaps"][0]["after"] == "late");
}

TEST_CASE("ops of different engines and processes do not mix") {
  Json events = {op(1, "a", 0, 10, 1), op(2, "b", 10, 10, 2, 1), op(3, "c", 20, 10, 2, 1)};
  events[1]["args"]["engine"] = 2;
  events[2]["pid"] = 7;
  const Json found = report(events.dump());
  CHECK(found["dependencies"] == 0);
  CHECK(found["dependencies_ignored"] == 2);
  CHECK(found["lanes"][2]["name"] == "process 7 thread 3");
}

TEST_CASE("a trace of a killed process is read up to where it ends, wherever that is") {
  const std::string text = known().dump(1);
  std::size_t first = 0;
  int read = 0;
  for (std::size_t length = 1; length < text.size(); length += kSanitized ? 205 : 41) {
    const File file(text.substr(0, length));
    const Outcome outcome = run_heddle("trace --json " + file.path());
    if (outcome.status == 1) {
      CHECK(first == 0);  // a file may only be refused if it ends before its first complete event
      CHECK(holds(outcome.error, "ends at byte"));
      continue;
    }
    first = length;
    REQUIRE(outcome.status == 0);
    const Json found = Json::parse(outcome.out);
    CHECK(found["cut_off"] == true);
    CHECK(found["ops"].get<int>() >= read);
    read = found["ops"];
  }
  CHECK(read == 5);
  const File file(text.substr(0, text.size() - 1));
  CHECK(holds(run_heddle("trace " + file.path()).out, "The file has no end"));
}

TEST_CASE("the object form, a comma at the end and what others write into traces are read") {
  CHECK(report(Json{{"displayTimeUnit", "ns"}, {"traceEvents", known()}, {"more", {1, 2}}}.dump())["ops"] ==
        5);
  CHECK(report("[]")["ops"] == 0);
  CHECK(report("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2},]")["ops"] == 1);
  CHECK(report(R"([{"ph":"X","name":"a","ts":1,"dur":2,"pid":"text","tid":null,"args":{"seq":"x","at":[{}]},
                    "other":{"a":[1,{"b":"]}"}],"c":true}},{"ph":"B","name":"b","ts":5},{"ph":7}])")["ops"] ==
        1);
  CHECK(report(R"([{"ph":"X","name":"\u00fc\ud83e\uddf5\n","ts":1e1,"dur":0.5e1}])")["names"][0]["name"] ==
        "\u00fc\U0001F9F5\n");
}

TEST_CASE("names cannot do harm to a terminal, to JSON, or to a page") {
  Json events = {op(1, "\x1b[31m</script><script>alert(1)//", 0, 10, 1)};
  std::string text = events.dump();
  text.replace(text.find("alert"), 1, "\xFF");  // makes the name invalid UTF-8
  const File file(text), page;
  const Outcome outcome = run_heddle("trace " + file.path() + " --html " + page.path());
  CHECK(outcome.status == 0);
  CHECK_FALSE(holds(outcome.out, "\x1b"));
  CHECK(holds(report(text)["names"][0]["name"], "\uFFFDlert"));
  const std::string html = page.text();
  CHECK_FALSE(holds(html, "</script><script>"));
  CHECK_FALSE(holds(html, "\xFF"));
}

Json data_of(const std::string& page) {
  const std::string opening = "id=\"data\">";
  const std::size_t begin = page.find(opening) + opening.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_CASE("the page holds every slice, dependency and step of the critical path, and asks for nothing else") {
  const File file(known().dump()), page;
  REQUIRE(run_heddle("trace " + file.path() + " --html " + page.path()).status == 0);
  const std::string html = page.text();
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "import"})
    CHECK_FALSE(holds(html, outside));
  const Json data = data_of(html);
  CHECK(data["span"] == 100'000);
  CHECK(data["lanes"].size() == 3);
  CHECK(data["rows"] == Json{1, 1, 1});
  const auto field = [&](std::size_t slice, std::size_t which) { return data["slices"][slice * 8 + which]; };
  REQUIRE(data["slices"].size() == 6 * 8);
  std::vector<int> sequences;
  for (const Json& index : data["path"]) sequences.push_back(field(index, 5));
  CHECK(sequences == std::vector{1, 3, 4, 5});
  REQUIRE(data["dependencies"].size() == 6);
  CHECK(field(data["dependencies"][0], 5) == 1);
  CHECK(field(data["dependencies"][1], 5) == 3);
  const std::size_t last = data["path"].back();
  CHECK(data["strings"][field(last, 3).get<std::size_t>()] == "mul");
  CHECK(field(last, 6) == 80'000);
  CHECK(field(last, 7) == 20'000);
}

TEST_CASE("ops that overlap on a lane are drawn below each other") {
  const Json events = {op(1, "a", 0, 100, 1), op(1, "b", 10, 20, 2), op(1, "c", 40, 20, 3),
                       op(1, "d", 50, 90, 4)};
  const File file(events.dump()), page;
  REQUIRE(run_heddle("trace " + file.path() + " --html " + page.path()).status == 0);
  const Json data = data_of(page.text());
  CHECK(data["rows"] == Json{3});
  for (std::size_t i = 0; i < 4; ++i) {
    const int sequence = data["slices"][i * 8 + 5];
    CHECK(data["slices"][i * 8 + 1] == std::vector{0, 1, 1, 2}[static_cast<std::size_t>(sequence - 1)]);
  }
}

Json began(double unix_ns, int rank = -1) {
  Json event = {{"ph", "M"}, {"name", "heddle_trace"}, {"pid", 1}, {"args", {{"unix_ns", unix_ns}}}};
  if (rank >= 0) event["args"]["rank"] = rank;
  return event;
}

// Microseconds:  0    10    20    30    40    50    60    70    80
//   worker       [conv 0-20 ]     [conv 30-40]     [update 55-80]
//   under way         [all_reduce 10-35 ]
//                              [all_reduce 25-60         ]
//                                                       [read 65-90], which is no collective
// The collectives take the time from 10 to 60. Computing ops overlap with it from 10 to 20, 30 to 40 and 55
// to 60, which is half of it. This rank's clock starts 5 us after that of rank 0.
Json rank_one() {
  Json wait = op(1, "wait", 20, 10, 0);
  wait["cat"] = "wait";
  return {began(2e18 + 5120, 1),
          lane(8, "engine 1 worker 0"),
          op(8, "conv", 0, 20, 1),
          async(8, "all_reduce", 10, 25, 2),
          async(8, "all_reduce 4096 B", 25, 35, 3),
          op(8, "conv", 30, 10, 4, 1),
          op(8, "update", 55, 25, 5, 3),
          async(8, "read", 65, 25, 6),
          wait};
}

Json rank_zero() {
  return {began(2e18, 0), lane(8, "engine 1 worker 0"), op(8, "conv", 0, 40, 1),
          async(8, "barrier", 20, 20, 2)};
}

TEST_CASE("communication of each rank, and how much of it lay beside other ops") {
  const File one(rank_one().dump()), zero(rank_zero().dump());
  const Json found = report(rank_one().dump())["communication"];
  REQUIRE(found.size() == 1);
  CHECK(found[0] ==
        Json{{"process", 1}, {"ops", 2}, {"time", 50'000}, {"hidden", 25'000}, {"hidden_share", 0.5}});
  CHECK(report(known().dump())["communication"].empty());

  const Outcome outcome = run_heddle("trace " + one.path() + " " + zero.path());
  REQUIRE(outcome.status == 0);
  CHECK(holds(outcome.out, "rank 1 engine 1 worker 0"));
  CHECK(holds(outcome.out,
              // The two ranks communicate for 70 us together, and compute during 45 us of that.
              "64.3 % of the communication was hidden: the rank computed meanwhile"));
  CHECK_FALSE(holds(run_heddle("trace " + File(known().dump()).path()).out, "ommunication"));
}

TEST_CASE("the ranks' files are laid on one clock, whatever their order") {
  const File one(rank_one().dump()), zero(rank_zero().dump()), page;
  for (const std::string& files : {one.path() + " " + zero.path(), zero.path() + " " + one.path()}) {
    const Outcome outcome = run_heddle("trace --json " + files + " --html " + page.path());
    REQUIRE(outcome.status == 0);
    const Json found = Json::parse(outcome.out);
    CHECK(found["span"] == 95'120);  // from the start of rank 0's first op to the end of rank 1's op `read`
    CHECK(found["ops"] == 8);
    CHECK(found["dependencies"] == 2);
    REQUIRE(found["communication"].size() == 2);
    CHECK(found["communication"][0]["hidden_share"] == 1.0);
    CHECK(found["communication"][1]["hidden"] == 25'000);
    const Json data = data_of(page.text());
    CHECK(data["lanes"] == Json{"rank 0 engine 1 worker 0", "rank 0 engine 1 asynchronous", "rank 1 thread 1",
                                "rank 1 engine 1 worker 0", "rank 1 engine 1 asynchronous"});
    CHECK(data["slices"][6] == 0);  // the start of the first slice, which is of rank 0
  }
}

TEST_CASE("files that are not of the ranks of one job are refused") {
  Json unknown = rank_one(), undated = rank_one();
  unknown[0] = began(2e18);
  undated.erase(0);
  const File zero(rank_zero().dump());
  for (const auto& [other, reason] :
       {std::pair{unknown, std::string("does not say of which rank it is")},
        std::pair{undated, std::string("does not say at what time of day it begins")},
        std::pair{rank_zero(), std::string("is of rank 0, as ") + zero.path()}}) {
    const File file(other.dump());
    const Outcome outcome = run_heddle("trace " + zero.path() + " " + file.path());
    CHECK(outcome.status == 1);
    CHECK(holds(outcome.error, file.path() + ": " + reason));
  }
  // Traces of processes that were not started by a launcher do not state a rank. They are numbered in the
  // order of the arguments.
  const File first(unknown.dump()), second(unknown.dump());
  CHECK(holds(run_heddle("trace " + first.path() + " " + second.path()).out, "rank 1 engine 1 worker 0"));
}

TEST_CASE("what is no trace is refused, with the reason") {
  const std::pair<std::string, const char*> cases[] = {
      {"", "the file is empty"},
      {" \n", "the file is empty"},
      {"hello", "want a trace"},
      {"{}", "no \"traceEvents\""},
      {"{\"traceEvents\":7}", "want a trace"},
      {std::string(3, '\0'), "want a trace"},
      {"[1]", "want '{'"},
      {"[{\"ph\"}]", "want ':'"},
      {"[{\"ph\":\"X\" \"ts\":1}]", "want ','"},
      {"[{\"ph\":\"X\",\"ts\":nan}]", "want a value"},
      {"[{\"ph\":\"X\",\"ts\":1e999}]", "want a number"},
      {"[{\"ph\":\"X\",\"ts\":--1}]", "want a number"},
      {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1e300}]", "'dur' is no whole number"},
      {"[{\"ph\":\"X\",\"ts\":-5,\"dur\":1}]", "'ts' is no whole number"},
      {"[{\"ph\":\"X\",\"dur\":1}]", "'ts' is no whole number"},
      {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"seq\":1.5}}]", "'seq' is no whole number"},
      {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"engine\":1e12}}]", "'engine' is too large"},
      {"[{\"ph\":\"X\\q\"}]", "backslash"},
      {"[{\"ph\":\"\\u00g0\"}]", "hexadecimal"},
      {"[{\"x\":[}]", "brackets do not match"},
      {"[{\"x\":" + std::string(100'000, '['), "brackets within brackets"},
      {"[{\"name\":\"" + std::string(2'000'000, 'a'), "a string of more than a megabyte"},
      {"[{\"ts\":" + std::string(1000, '1'), "more than 64 digits"},
  };
  for (const auto& [text, reason] : cases) {
    const File file(text);
    const Outcome outcome = run_heddle("trace " + file.path());
    CAPTURE(text.substr(0, 80));
    CAPTURE(outcome.error);
    CHECK(outcome.status == 1);
    CHECK(holds(outcome.error, reason));
    CHECK(holds(outcome.error, file.path()));
    CHECK(outcome.out == "");
  }
}

TEST_CASE("dependencies that run backwards, in circles or into nothing are counted, not followed") {
  const Json events = {op(1, "a", 0, 10, 1, 2), op(1, "b", 10, 10, 2, 1), op(1, "c", 20, 10, 3, 3),
                       op(1, "d", 30, 10, 4, 99), op(1, "e", 40, 10, 4, 1)};
  const Json found = report(events.dump());
  CHECK(found["dependencies"] == 2);
  CHECK(found["dependencies_ignored"] == 3);
  CHECK(found["critical_path"]["inside"] == 20'000);
}

TEST_CASE("times at the edge of what is allowed do not overflow") {
  Json events = Json::array();
  for (int i = 0; i < 3000; ++i) events.push_back(op(1, "long", 9e12, 9e12, i, i - 1));
  const Json found = report(events.dump());
  CHECK(found["span"] == 9'000'000'000'000'000);
  CHECK(found["op_time"] == doctest::Approx(3000 * 9e15));
  CHECK(found["critical_path"]["inside"] == doctest::Approx(3000 * 9e15));
}

TEST_CASE("a trace with bytes changed at random is read or refused, never a crash") {
  const std::string good = known().dump();
  std::mt19937 random(1);
  constexpr int kTurns = kSanitized ? 25 : 100;
  int refused = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      const std::string bytes = "\"\\{}[],:0-e\xFFu ";
      text[random() % text.size()] = bytes[random() % bytes.size()];
    }
    const File file(text), page;
    const Outcome outcome = run_heddle("trace --json " + file.path() + " --html " + page.path());
    CAPTURE(text);
    const bool as_promised = outcome.status == 0   ? Json::accept(outcome.out)
                             : outcome.status == 1 ? holds(outcome.error, file.path())
                                                   : false;
    CHECK(as_promised);
    refused += outcome.status == 1;
  }
  CHECK(refused > kTurns / 5);
}

TEST_CASE("the command line: help teaches, misuse is 2, failure is 1") {
  const Outcome help = run_heddle("--help");
  CHECK(help.status == 0);
  CHECK(holds(help.out, "HEDDLE_TRACE=out.json"));
  CHECK(holds(run_heddle("trace --help").out, "--html"));
  const Outcome unknown = run_heddle("tarce");
  CHECK(unknown.status == 2);
  CHECK(holds(unknown.error, "there is no command 'tarce'; there is: trace"));
  CHECK(run_heddle("").status == 2);
  CHECK(run_heddle("trace").status == 2);
  CHECK(run_heddle("trace --wrong x").status == 2);
  CHECK(run_heddle("trace x --top many").status == 2);
  const Outcome missing = run_heddle("trace /nowhere/at/all.json");
  CHECK(missing.status == 1);
  CHECK(holds(missing.error, "/nowhere/at/all.json: No such file"));
  CHECK(run_heddle("trace /").status == 1);
  const File file("[]");
  CHECK(run_heddle("trace " + file.path() + " --html /nowhere/at/all.html").status == 1);
}

}  // namespace
