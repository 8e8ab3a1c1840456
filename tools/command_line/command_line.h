// Command lines of programs: options, --help, and messages for mistakes. Based on CLI11, which only
// command_line.cc includes, because a file that includes it takes seconds to compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle::command_line {

// A mistake in the command line. Thrown by functions passed to Command::on_parsed.
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One option of a command. Copies of this object refer to the same option, which lives as long as its
// Program.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option type_name(const std::string& name);  // the name of the value in --help
  Option show_default();                      // --help shows the variable's initial value as the default
  Option required();
  Option hidden();               // --help omits the option
  Option delimiter(char comma);  // the character that separates the values in a word, for a list
  Option one_value();            // each occurrence of the option takes only one word, for a list

  // Each value must be in the range [least, most].
  Option range(double least, double most);
  template <std::integral T> Option range(T least, T most) { return integers(least, most); }
  Option positive();
  Option one_of(const std::vector<std::string>& values);
  // `problem` returns what is wrong with a value; "" if it is valid.
  Option check(std::function<std::string(const std::string&)> problem);

  bool given() const;                  // whether the command line that was parsed has the option
  void set(const std::string& value);  // sets the value as if the command line had it. Throws Misuse.

 private:
  Option integers(std::int64_t least, std::int64_t most);

  CLI::Option* option_;
};

// A program, or one of its commands. Copies of this object refer to the same command, which lives as long as
// its Program.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  // Adds an option whose value parse() writes to the variable. `names` is like "-n,--ranks", or like "file"
  // for a word that needs no option's name. If a scalar is given twice, the last value counts. T:
  // std::string, int, std::uint32_t, std::int64_t, std::uint64_t, double, std::optional<double>,
  // std::vector<std::string>, std::vector<int>.
  template <typename T>
  Option add_option(const std::string& names, T& variable, const std::string& help = "");
  // Adds an option without a value that sets the variable to true, or to false under a name with '!', as in
  // "--pin,!--no-pin".
  Option add_flag(const std::string& names, bool& variable, const std::string& help);
  std::optional<Option> find_option(const std::string& name) const;

  Command add_command(const std::string& name, const std::string& description);
  void commands_optional();              // no subcommand is required; call after the last add_command
  void footer(const std::string& text);  // text at the end of --help
  // Lets parse() call `function`, which may throw Misuse, if this command is the innermost one on the command
  // line.
  void on_parsed(std::function<void()> function);

  void allow_extras();                         // accepts words that belong to no option
  void prefix_command();                       // the first word that is not an option ends the options
  std::vector<std::string> remaining() const;  // the words of the command line that belong to no option

 protected:
  CLI::App* app_;
};

class Program : public Command {
 public:
  Program(const std::string& name, const std::string& description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Parses a command line and writes the variables. Returns the exit status if the program must end now: 0
  // after --help, 2 after a mistake, which parse() prints. If the program has commands, one must be given.
  std::optional<int> parse(std::vector<std::string> words);
  std::optional<int> parse(int argc, char** argv);
};

}  // namespace heddle::command_line
