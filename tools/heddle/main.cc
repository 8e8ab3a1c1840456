#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "command.h"

namespace heddle::tool {
namespace {

constexpr int kFailed = 1, kMisused = 2;

std::string names_of_commands(const CLI::App& program) {
  std::string names;
  for (const CLI::App* command : program.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

std::string complaint(const CLI::App& program, const CLI::ParseError& error) {
  if (program.get_subcommands().empty() && !program.remaining().empty()) {
    return "there is no command '" + program.remaining().front() +
           "'; there is: " + names_of_commands(program);
  }
  return error.what();
}

int misused(const CLI::App& program, const CLI::ParseError& error) {
  const auto chosen = program.get_subcommands();
  const std::string name = chosen.empty() ? "heddle" : "heddle " + chosen.front()->get_name();
  std::fprintf(stderr, "%s: %s\n%s --help says more\n", name.c_str(), complaint(program, error).c_str(),
               name.c_str());
  return kMisused;
}

// What stands behind -- in the command line of `launch`. CLI11 would look for options of `heddle` there.
Behind take_program(std::vector<std::string>& words) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark == words.end() || words.front() != "launch") return std::nullopt;
  const std::vector<std::string> program(mark + 1, words.end());
  words.erase(mark, words.end());
  return program;
}

int run(int argc, char** argv) {
  CLI::App program{
      "Starts programs that use Heddle, and looks into what they do.\n\n"
      "Start four ranks: heddle launch -n 4 ./program\n"
      "What is in a way: heddle doctor\n"
      "Encrypt jobs:     heddle keygen\n"
      "Record a trace:   HEDDLE_TRACE=out.json ./program\n"
      "Look at it:       heddle trace out.json\n"
      "In a browser:     heddle trace out.json --html out.html\n"
      "On more ranks:    heddle simulate out.json --beta 25Gbit/s"};
  program.name("heddle");
  program.require_subcommand(1);
  program.footer("heddle COMMAND --help says more about a command.");
  Action action;
  add_trace(program, action);
  std::vector<std::string> words(argv + 1, argv + argc);
  add_launch(program, action, take_program(words));
  add_doctor(program, action);
  add_simulate(program, action);
  add_keygen(program, action);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    program.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? program.exit(error) : misused(program, error);
  }
  try {
    return action();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle: %s\n", error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) { return heddle::tool::run(argc, argv); }
