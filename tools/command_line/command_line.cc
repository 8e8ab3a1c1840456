#include "command_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

namespace heddle::command_line {
namespace {

constexpr int kMisused = 2;

std::string names_of_commands(const CLI::App& program) {
  std::string names;
  for (const CLI::App* command : program.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// The innermost command on the command line, and its full name, such as "heddle server plan".
std::pair<const CLI::App*, std::string> chosen(const CLI::App& program) {
  const CLI::App* command = &program;
  std::string name = program.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

std::string complaint(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& command = *chosen(program).first;
  const std::string commands = names_of_commands(command);
  const std::vector<std::string> words = command.remaining();
  if (!commands.empty() && !words.empty() && !words.front().starts_with("-")) {
    return "there is no command '" + words.front() + "'; there is: " + commands;
  }
  return error.what();
}

int misused(const CLI::App& program, const std::string& why) {
  const std::string name = chosen(program).second;
  std::fprintf(stderr, "%s: %s\n%s --help says more\n", name.c_str(), why.c_str(), name.c_str());
  return kMisused;
}

template <typename T> constexpr bool kIsList = false;
template <typename T> constexpr bool kIsList<std::vector<T>> = true;

}  // namespace

Option Option::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::hidden() {
  option_->group("");
  return *this;
}

Option Option::delimiter(char comma) {
  option_->delimiter(comma);
  return *this;
}

Option Option::one_value() {
  option_->allow_extra_args(false);
  return *this;
}

// Checks the range of numbers. CLI::Range and CLI::PositiveNumber would accept NaN.
Option Option::range(double least, double most) {
  char ends[80];
  std::snprintf(ends, sizeof ends, "%g - %g", least, most);
  const auto problem = [least, most, range = std::string(ends)](const std::string& text) -> std::string {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? "" : "Value " + text + " not in range " + range;
  };
  option_->check(CLI::Validator(problem, "FLOAT in [" + std::string(ends) + "]"));
  return *this;
}

Option Option::integers(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::positive() {
  const auto problem = [](const std::string& text) -> std::string {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value);
    return good ? "" : "Value " + text + " is not positive";
  };
  option_->check(CLI::Validator(problem, "POSITIVE"));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::check(std::function<std::string(const std::string&)> problem) {
  option_->check(CLI::Validator(std::move(problem), ""));
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

void Option::set(const std::string& value) {
  try {
    option_->add_result(value);
    option_->run_callback();
  } catch (const CLI::ParseError& error) {
    throw Misuse(error.what());
  }
}

template <typename T>
Option Command::add_option(const std::string& names, T& variable, const std::string& help) {
  CLI::Option* option = app_->add_option(names, variable, help);
  if (!kIsList<T>) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return Option(*option);
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, std::uint32_t&, const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<int>&, const std::string&);

Option Command::add_flag(const std::string& names, bool& variable, const std::string& help) {
  return Option(*app_->add_flag(names, variable, help));
}

std::optional<Option> Command::find_option(const std::string& name) const {
  CLI::Option* option = app_->get_option_no_throw(name);
  return option ? std::optional(Option(*option)) : std::nullopt;
}

Command Command::add_command(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  return Command(*app_->add_subcommand(name, description));
}

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::commands_optional() { app_->require_subcommand(0, 1); }
void Command::on_parsed(std::function<void()> function) {
  app_->callback([app = app_, function = std::move(function)] {
    if (app->get_subcommands().empty()) function();
  });
}
void Command::allow_extras() { app_->allow_extras(); }
void Command::prefix_command() { app_->prefix_command(); }
std::vector<std::string> Command::remaining() const { return app_->remaining(); }

Program::Program(const std::string& name, const std::string& description)
    : Command(*std::make_unique<CLI::App>(description, name).release()) {}

Program::~Program() { delete app_; }

std::optional<int> Program::parse(std::vector<std::string> words) {
  try {
    std::reverse(words.begin(), words.end());  // CLI11 wants the words in reverse order
    app_->parse(words);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app_->exit(error) : misused(*app_, complaint(*app_, error));
  } catch (const Misuse& error) {
    return misused(*app_, error.what());
  }
  return std::nullopt;
}

std::optional<int> Program::parse(int argc, char** argv) {
  return parse(std::vector<std::string>(argv + (argc > 0), argv + argc));
}

}  // namespace heddle::command_line
