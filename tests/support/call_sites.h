// Finds the source locations that the ops of a call report.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/call_site.h>
#include <heddle/engine.h>
#include <heddle/trace.h>

#include "files.h"

namespace heddle::test {

inline std::string text_of(Where where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

struct OpSite {
  std::string name, at;  // `at` is a source location, such as "tests/ndarray/call_site_test.cc:12"
};

// The string value of `key` in a line of a trace; empty if the line has none.
inline std::string value_in(const std::string& line, const std::string& key) {
  const std::string before = "\"" + key + "\":\"";
  const std::size_t begin = line.find(before);
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + before.size();
  return line.substr(from, line.find('"', from) - from);
}

// Waits until the current engine has no pending op; ignores errors of the ops.
inline void finish_ops() {
  try {
    current_engine().wait_all();
  } catch (const AggregateError&) {
    return;
  }
}

// All ops that call() pushes, read from a trace.
inline std::vector<OpSite> sites_of_ops(const std::function<void()>& call) {
  const TemporaryFile file;
  finish_ops();
  trace::start(file.path);
  call();
  finish_ops();
  trace::stop();
  std::vector<OpSite> sites;
  std::istringstream lines(read_file(file.path));
  for (std::string line; std::getline(lines, line);) {
    const std::string category = value_in(line, "cat");  // the kind of event; "issue": an async op's function
    if (category != "op" && category != "issue") continue;
    sites.push_back({value_in(line, "name"), value_in(line, "at")});
  }
  return sites;
}

inline void check_sites(const char* function, const std::vector<OpSite>& sites, Where where) {
  CAPTURE(std::string(function));
  CHECK_FALSE(sites.empty());
  for (const OpSite& site : sites) {
    CAPTURE(site.name);
    CHECK(site.at == text_of(where));
  }
}

// A type-erased reference to a lambda. std::function would take long to compile, since it would be
// instantiated for every lambda.
struct CallRef {
  template <class Call>
  explicit CallRef(const Call& call)
      : object(&call), run([](const void* one) { (*static_cast<const Call*>(one))(); }) {}
  void operator()() const { run(object); }

  const void* object;
  void (*run)(const void*);
};

// Checks that call() pushes at least one op, and that each op reports the line of this check, on which the
// call must be. tools/check_call_sites.py requires such a check of every function that takes its call site.
template <class Call>
void check_site(const char* function, const Call& call, Where where = Where::current()) {
  check_sites(function, sites_of_ops(CallRef(call)), where);
}

}  // namespace heddle::test
