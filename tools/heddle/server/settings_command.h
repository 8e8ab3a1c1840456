// A command that has settings, from options, environment variables and a file, and the option --check-config.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "server/launcher.h"
#include "server/settings.h"

namespace heddle::tool {

class SettingsCommand {
 public:
  // `launcher` returns the settings that launchers' variables give; it may throw std::runtime_error.
  SettingsCommand(const SettingsTable& table, LauncherSettings (*launcher)(const Lookup& lookup))
      : table_(table), launcher_(launcher) {}
  SettingsCommand(const SettingsCommand&) = delete;
  SettingsCommand& operator=(const SettingsCommand&) = delete;

  void add_options(command_line::Command& command);  // this object must outlive the parsing of the options
  bool any_given() const;                            // whether the command line has any of these options
  // Calls `act` with the settings and returns its result. If they have problems, prints these and returns
  // exit status 2. With --check-config, only prints the settings or problems.
  int run(const std::function<int(const ServerSettings&)>& act) const;

 private:
  std::string config_file() const;
  FoundSettings found() const;
  void check_start(FoundSettings& all) const;

  const SettingsTable& table_;
  LauncherSettings (*launcher_)(const Lookup& lookup);
  std::string config_;
  bool check_ = false;
  std::map<std::string, std::string> values_;  // values of options, by the setting's name
  std::vector<std::pair<std::string, command_line::Option>> flags_;
};

}  // namespace heddle::tool
