#include "server/administration_options.h"

#include <stdexcept>

#include "simulate/units.h"

namespace heddle::tool {

AdministrationOptions AdministrationArguments::options() const {
  return {.server = at, .transport = transport, .keys = keys, .timeout = milliseconds_from(timeout)};
}

void add_administration_options(command_line::Command& command, AdministrationArguments& arguments) {
  command.add_option("--at", arguments.at, "where the server serves workers (--listen)")
      .type_name("HOST:PORT");
  command.add_option("--transport", arguments.transport, "the server's")
      .show_default()
      .one_of({"net", "zmq"});
  command
      .add_option("--keys", arguments.keys,
                  "the folder of this user's keys, one of which has the role admin there; without it that of "
                  "heddle keygen")
      .type_name("DIR");
  command.add_option("--timeout", arguments.timeout, "how long to wait for an answer")
      .show_default()
      .check(problem_of_time)
      .type_name("TIME");
}

std::chrono::milliseconds milliseconds_from(const std::string& text) {
  constexpr double kMost = 3600;
  const double seconds = seconds_from(text);
  if (seconds > kMost) throw std::runtime_error("'" + text + "': want an hour at most");
  return std::chrono::milliseconds(static_cast<long long>(seconds * 1000));
}

std::string problem_of_time(const std::string& text) {
  try {
    milliseconds_from(text);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace heddle::tool
