// What a server is told, by flags, by its environment and by a file, and who said it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "server/config_file.h"
#include "server/log.h"

namespace heddle::tool {

struct ServerSettings {
  ServerOptions server{};
  std::string metrics{};  // HOST:PORT; empty: none
  LogOptions log{};
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

std::span<const Setting> server_settings();
std::string variable_of(const Setting& setting);

struct SettingSources {
  std::map<std::string, std::string> flags{};        // by the setting's name
  std::map<std::string, std::string> environment{};  // by the variable's name; one that is empty is not there
  std::string file{};                                // how the file is called in origins
  std::vector<ConfigLine> lines{};                   // of the file
};

struct SettingValue {
  std::string name, value;
  std::string origin;  // "--listen", "HEDDLE_SERVER_LISTEN", "server.toml:3" or "default"
};

struct FoundSettings {
  ServerSettings settings{};            // of use if there is no problem
  std::vector<SettingValue> values{};   // of all settings, in the order of server_settings()
  std::vector<std::string> problems{};  // a line each, which begins with the origin
  std::vector<std::string> notes{};     // what is no mistake but deserves a look
};

// Flags go before the environment, and that before the file. Also checks how the values fit together.
FoundSettings find_settings(const SettingSources& sources);

// All settings as a table of name, value and origin.
std::string settings_table(const FoundSettings& found);

// The number that ends a name: 3 of "heddle-server-3", and of "heddle-server-3.heddle.svc". Throws std::runtime_error.
int number_in_host(const std::string& host);

// The HEDDLE_SERVER_ variables of this process.
std::map<std::string, std::string> server_environment();

}  // namespace heddle::tool
