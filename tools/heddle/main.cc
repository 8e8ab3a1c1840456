#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command.h"

namespace heddle::tool {
namespace {

constexpr int kFailed = 1;

// Cuts off and returns the words behind the "--" of `heddle launch`: they are the program's, and the parser
// would take them for options of `heddle`.
Behind take_program(std::vector<std::string>& words) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark == words.end() || words.front() != "launch") return std::nullopt;
  const std::vector<std::string> program(mark + 1, words.end());
  words.erase(mark, words.end());
  return program;
}

// Makes a write beyond `ulimit -f` fail instead of killing the process by SIGXFSZ. A handler is set rather
// than SIG_IGN, which the programs that `heddle launch` starts would inherit.
void let_large_writes_fail() {
  struct sigaction action {};
  ::sigaction(SIGXFSZ, nullptr, &action);
  if (action.sa_handler == SIG_DFL) std::signal(SIGXFSZ, [](int) {});
}

// The status of a command, or a failure if what it wrote to stdout is not there.
int finished(int status) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout) return status;
  std::fprintf(stderr, "heddle: cannot write to stdout: %s\n", std::strerror(errno));
  return status == 0 ? kFailed : status;
}

int run(int argc, char** argv) {
  let_large_writes_fail();
  Program program{"heddle",
                  "Starts programs that use Heddle, and looks into what they do.\n\n"
                  "Start four ranks: heddle launch -n 4 ./program\n"
                  "What is in a way: heddle doctor\n"
                  "Encrypt jobs:     heddle keygen\n"
                  "All operators:    heddle operators, heddle layers, heddle metrics\n"
                  "A saved model:    heddle model net.safetensors --svg net.svg\n"
                  "Serve values:     heddle server, heddle scheduler\n"
                  "Record a trace:   HEDDLE_TRACE=out.json ./program\n"
                  "Look at it:       heddle trace out.json\n"
                  "In a browser:     heddle trace out.json --html out.html\n"
                  "On more ranks:    heddle simulate out.json --beta 25Gbit/s"};
  program.footer("heddle COMMAND --help says more about a command.");
  Action action;
  add_trace(program, action);
  std::vector<std::string> words(argv + 1, argv + argc);
  add_launch(program, action, take_program(words));
  add_doctor(program, action);
  add_simulate(program, action);
  add_keygen(program, action);
  add_operators(program, action);
  add_layers(program, action);
  add_metrics(program, action);
  add_model(program, action);
  add_server(program, action);
  add_scheduler(program, action);
  if (const std::optional<int> status = program.parse(words)) return finished(*status);
  try {
    return finished(action());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle: %s\n", error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) { return heddle::tool::run(argc, argv); }
