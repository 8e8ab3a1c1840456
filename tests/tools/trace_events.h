// Makes events of traces, and runs heddle trace on them.
#pragma once

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "heddle_program.h"

namespace heddle::test {

using Json = nlohmann::json;

inline Json op(int lane, const char* name, double start, double length, int sequence, int by = -1) {
  Json event = {{"ph", "X"},     {"cat", "op"},
                {"name", name},  {"ts", start},
                {"dur", length}, {"pid", 1},
                {"tid", lane},   {"args", {{"engine", 1}, {"seq", sequence}, {"at", "program.cc:5"}}}};
  if (by >= 0) event["args"]["by"] = by;
  return event;
}

inline Json lane(int number, const char* name) {
  return {{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", number}, {"args", {{"name", name}}}};
}

inline Json report(const std::string& text, const std::string& more = "") {
  const File file(text);
  const Outcome outcome = run_heddle("trace --json " + file.path() + " " + more);
  CHECK(outcome.error == "");
  REQUIRE(outcome.status == 0);
  return Json::parse(outcome.out);
}

inline Json async(int lane, const char* name, double start, double length, int sequence) {
  Json event = op(lane, name, start, length, sequence);
  event["ph"] = "b";
  event["cat"] = "async";
  return event;
}

}  // namespace heddle::test
