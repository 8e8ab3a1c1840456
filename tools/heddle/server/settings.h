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
  std::string metrics{};              // HOST:PORT of the HTTP pages; empty: none
  LogOptions log{};
  int servers_on_host = 1;           // number of servers that share the host's memory
  std::string memory_limit{};        // the limit and its origin, for the log
  std::vector<std::string> notes{};  // notes to be logged at the start
};

// --memory-limit, HEDDLE_SERVER_MEMORY_LIMIT and the line memory-limit = VALUE are the same setting.
struct Setting {
  const char* name;
  const char* type;   // the name of the value in --help
  const char* usual;  // the default value
  const char* help;
  // Throws std::runtime_error that names the value and says what is wanted.
  void (*apply)(ServerSettings& settings, const std::string& value);
};

struct FoundSettings;
// The settings of one program.
struct SettingsTable {
  const char* prefix;  // prefix of the names of its variables
  std::span<const Setting> settings;
  void (*check)(FoundSettings& found);  // checks the values together, since they may depend on each other
};
const SettingsTable& server_table();
const SettingsTable& scheduler_table();
std::span<const Setting> server_settings();
std::string variable_of(const Setting& setting, const SettingsTable& table = server_table());

struct SettingSources {
  std::map<std::string, std::string> flags{};        // values by the setting's name
  std::map<std::string, std::string> environment{};  // values by the variable's name; empty: not set
  std::string file{};                                // the file's name in origins
  std::vector<ConfigLine> lines{};                   // the file's lines
  // Settings from a launcher's variables for all of a job's processes, by name: value and variable.
  std::map<std::string, std::pair<std::string, std::string>> launcher{};
};

struct SettingValue {
  std::string name, value;
  std::string origin;  // "--listen", "HEDDLE_SERVER_LISTEN", "server.toml:3", "DMLC_NUM_SERVER" or "default"
};

struct FoundSettings {
  ServerSettings settings{};            // valid only if there are no problems
  std::vector<SettingValue> values{};   // all settings, in the order of the table
  std::vector<std::string> problems{};  // a line each, which begins with the origin
  std::vector<std::string> notes{};     // hints that are no errors
};

// Precedence: flags, the environment, the file, a launcher's variables. Also checks the values together.
FoundSettings find_settings(const SettingSources& sources, const SettingsTable& table = server_table());

// All settings as a table of name, value and origin.
std::string settings_table(const FoundSettings& found);

// The number in a host's name: 3 in "heddle-server-3.heddle.svc". Throws std::runtime_error.
int number_in_host(const std::string& host);

// The variables of this process that begin with the table's prefix.
std::map<std::string, std::string> settings_environment(const SettingsTable& table);

}  // namespace heddle::tool
