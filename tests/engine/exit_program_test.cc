// The output and exit status of programs whose engine ends with errors, or where it must not end.
#include <algorithm>
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "command.h"

namespace {

using heddle::test::CommandResult;

CommandResult run(const std::string& scheduler, const std::string& flag) {
  return heddle::test::run_command("HEDDLE_SCHEDULER=" + scheduler + " '" HEDDLE_EXIT_PROGRAM "' " + flag +
                                   " 2>&1");
}

constexpr const char* kSchedulers[] = {"naive", "threaded", "fuzz:1"};

}  // namespace

TEST_CASE("the errors that nobody has seen are one line when their engine ends") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    const CommandResult result = run(scheduler, "--unseen-errors");
    CAPTURE(result.output);
    CHECK(result.code == 0);
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
    CHECK(result.output.starts_with(
        "heddle: 3000 errors that nobody waited for; the first: op 'fails' pushed at "));
    CHECK(result.output.ends_with(" failed: two lines\n"));
  }
}

TEST_CASE("an engine that is destroyed inside its own op names the op and aborts the process") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    const CommandResult result = run(scheduler, "--destroyed-inside-op");
    CAPTURE(result.output);
    CHECK(result.signal == SIGABRT);
    CHECK(result.output.find("heddle: an engine is destroyed inside its own op 'destroys', pushed at ") !=
          std::string::npos);
    CHECK(result.output.find("exit_program.cc:") != std::string::npos);
  }
}

TEST_CASE("exit() inside an op of a static engine ends the process without a word") {
  for (const char* scheduler : kSchedulers) {
    CAPTURE(scheduler);
    const CommandResult result = run(scheduler, "--exit-with-static-engine");
    CHECK(result.output == "");
    CHECK(result.code == 0);
  }
}
