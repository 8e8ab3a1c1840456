// The settings of a server or a scheduler from flags, the environment and a file, with their origins.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <heddle/server.h>
#include <heddle/store_scheduler.h>

#include "server/config_file.h"
#include "server/reports/log.h"

namespace heddle::tool {

struct ServerSettings {
  ServerOptions server{};             // for `heddle server`
  StoreSchedulerOptions scheduler{};  // for `heddle scheduler`
  std::string metrics{};              // HOST:PORT of the HTTP pages; empty: no pages
  LogOptions log{};
  int servers_on_host = 1;           // number of servers that share the host's memory
  std::string memory_limit{};        // the memory limit and its origin as text, for the log
  std::vector<std::string> notes{};  // hints about the settings, to be logged at the start
};

// One setting, which can come from several sources: the option --memory-limit, the variable
// HEDDLE_SERVER_MEMORY_LIMIT and the line memory-limit = VALUE of a file are the same setting.
struct Setting {
  const char* name;
  const char* type;   // the name of the value in --help
  const char* usual;  // the default value
  const char* help;
  // Writes the value to `settings`. Throws std::runtime_error that names an invalid value and what is wanted.
  void (*apply)(ServerSettings& settings, const std::string& value);
};

struct FoundSettings;
// The settings of `heddle server` or of `heddle scheduler`.
struct SettingsTable {
  const char* prefix;  // prefix of the environment variables, such as "HEDDLE_SERVER_"
  std::span<const Setting> settings;
  void (*check)(FoundSettings& found);  // checks what concerns several settings together
};
const SettingsTable& server_table();
const SettingsTable& scheduler_table();
std::span<const Setting> server_settings();
std::string variable_of(const Setting& setting, const SettingsTable& table = server_table());

struct SettingSources {
  std::map<std::string, std::string> flags{};        // values of options, by the setting's name
  std::map<std::string, std::string> environment{};  // values of variables, by name; empty: not set
  std::string file{};                                // name of the settings file
  std::vector<ConfigLine> lines{};                   // lines of the settings file
  // Settings from variables that a launcher sets for all processes of a job: value and variable, by the
  // setting's name.
  std::map<std::string, std::pair<std::string, std::string>> launcher{};
};

struct SettingValue {
  std::string name, value;
  std::string origin;  // "--listen", "HEDDLE_SERVER_LISTEN", "server.toml:3", "DMLC_NUM_SERVER" or "default"
};

struct FoundSettings {
  ServerSettings settings{};            // valid only if `problems` is empty
  std::vector<SettingValue> values{};   // all settings as text, in the order of the table
  std::vector<std::string> problems{};  // errors, one line each, which begins with the setting's origin
  std::vector<std::string> notes{};     // hints about settings that are no errors
};

// Finds the value of each setting in the first of these sources that has it: options, environment variables,
// the file, a launcher's variables, the default. Also checks settings that depend on each other.
FoundSettings find_settings(const SettingSources& sources, const SettingsTable& table = server_table());

// The text of --check-config: a table of each setting's name, value and origin.
std::string settings_table(const FoundSettings& found);

// The server's number in a host's name, such as 3 in "heddle-server-3.heddle.svc". Throws std::runtime_error
// if there is none.
int number_in_host(const std::string& host);

// This process's environment variables whose names begin with the table's prefix.
std::map<std::string, std::string> settings_environment(const SettingsTable& table);

}  // namespace heddle::tool
