// Settings of servers and schedulers from a job's environment variables: HEDDLE_STORE_..., and those that
// DMLC's launchers (ps-lite, MXNet) set.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace heddle::tool {

using Lookup = std::function<std::string(const char* variable)>;  // "" for a variable that is not set

// DMLC_ROLE: "scheduler", "server" or "worker"; empty: not set. Throws std::runtime_error for anything else.
std::string launcher_role(const Lookup& lookup);

// Settings of a server or a scheduler, by name: the value, and the variable that sets it.
using LauncherSettings = std::map<std::string, std::pair<std::string, std::string>>;
// Both throw std::runtime_error naming a variable that is missing or that names no host.
LauncherSettings launcher_settings_of_server(const Lookup& lookup);
LauncherSettings launcher_settings_of_scheduler(const Lookup& lookup);

std::string environment_variable(const char* name);  // a Lookup

}  // namespace heddle::tool
