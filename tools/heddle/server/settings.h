// What a server or a scheduler is told, by flags, by its environment and by a file, and who said it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <heddle/server.h>
#include <heddle/store_scheduler.h>

#include "server/config_file.h"
#include "server/log.h"

namespace heddle::tool {

struct ServerSettings {
  ServerOptions server{};             // of `heddle server`
  StoreSchedulerOptions scheduler{};  // of `heddle scheduler`
  std::string metrics{};              // HOST:PORT; empty: none
  LogOptions log{};
  int servers_on_host = 1;           // which share its memory
  std::string memory_limit{};        // how the log calls it, and what it was taken from
  std::vector<std::string> notes{};  // to be logged at the start
};

// --memory-limit, HEDDLE_SERVER_MEMORY_LIMIT and the line memory-limit = VALUE are the same setting.
struct Setting {
  const char* name;
  const char* type;   // what --help calls the value
  const char* usual;  // the value that it has without anybody's doing
  const char* help;
  // Throws std::runtime_error that names the value and says what is wanted.
  void (*apply)(ServerSettings& settings, const std::string& value);
};

struct FoundSettings;
// The settings of one program.
struct SettingsTable {
  const char* prefix;  // of its variables
  std::span<const Setting> settings;
  void (*check)(FoundSettings& found);  // how the values fit together; they may depend on each other
};
const SettingsTable& server_table();
const SettingsTable& scheduler_table();
std::span<const Setting> server_settings();
std::string variable_of(const Setting& setting, const SettingsTable& table = server_table());

struct SettingSources {
  std::map<std::string, std::string> flags{};        // by the setting's name
  std::map<std::string, std::string> environment{};  // by the variable's name; one that is empty is not there
  std::string file{};                                // how the file is called in origins
  std::vector<ConfigLine> lines{};                   // of the file
  // What variables say that a launcher has set for all of a job's processes; by the setting's name: value and variable.
  std::map<std::string, std::pair<std::string, std::string>> launcher{};
};

struct SettingValue {
  std::string name, value;
  std::string origin;  // "--listen", "HEDDLE_SERVER_LISTEN", "server.toml:3", "DMLC_NUM_SERVER" or "default"
};

struct FoundSettings {
  ServerSettings settings{};            // of use if there is no problem
  std::vector<SettingValue> values{};   // of all settings, in the order of server_settings()
  std::vector<std::string> problems{};  // a line each, which begins with the origin
  std::vector<std::string> notes{};     // what is no mistake but deserves a look
};

// Flags go before the environment, that before the file, and that before a launcher's variables. Also checks how the values
// fit together.
FoundSettings find_settings(const SettingSources& sources, const SettingsTable& table = server_table());

// All settings as a table of name, value and origin.
std::string settings_table(const FoundSettings& found);

// The number that ends a name: 3 of "heddle-server-3", and of "heddle-server-3.heddle.svc". Throws std::runtime_error.
int number_in_host(const std::string& host);

// The variables of this process that begin with the table's prefix.
std::map<std::string, std::string> settings_environment(const SettingsTable& table);

}  // namespace heddle::tool
