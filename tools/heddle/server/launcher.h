// What the variables of a job say to its servers and its scheduler, beside those of `heddle server` itself: where the
// scheduler is, and what DMLC's launchers set (ps-lite, MXNet).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

namespace heddle::tool {

using Lookup = std::function<std::string(const char* variable)>;  // empty: it is not set

// DMLC_ROLE: "scheduler", "server" or "worker"; empty: none is set. Throws std::runtime_error for anything else.
std::string launcher_role(const Lookup& lookup);

// Settings of the server, or of the scheduler, by name: the value and the variable that says so.
using LauncherSettings = std::map<std::string, std::pair<std::string, std::string>>;
// Throws std::runtime_error naming a variable that is missing or that names no host.
LauncherSettings launcher_settings_of_server(const Lookup& lookup);
LauncherSettings launcher_settings_of_scheduler(const Lookup& lookup);

std::string environment_variable(const char* name);  // a Lookup

}  // namespace heddle::tool
