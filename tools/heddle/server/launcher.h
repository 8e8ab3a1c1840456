// Settings of servers and schedulers from a job's environment variables: HEDDLE_STORE_..., and those that
// DMLC's launchers (ps-lite, MXNet) set.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace heddle::tool {

// Returns the value of an environment variable; "" if it is not set.
using Lookup = std::function<std::string(const char* variable)>;

// The value of DMLC_ROLE: "scheduler", "server" or "worker"; empty if it is not set. Throws
// std::runtime_error for any other value.
std::string launcher_role(const Lookup& lookup);

// Settings of a server or a scheduler, by name: the value, and the variable that sets it.
using LauncherSettings = std::map<std::string, std::pair<std::string, std::string>>;
// The two functions below throw std::runtime_error if a variable is missing or has no valid host; the message
// names the variable.
LauncherSettings launcher_settings_of_server(const Lookup& lookup);
LauncherSettings launcher_settings_of_scheduler(const Lookup& lookup);

std::string environment_variable(const char* name);  // the Lookup for this process's environment

}  // namespace heddle::tool
