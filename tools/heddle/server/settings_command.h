// A command with settings as options: flags, variables, a file, and --check-config.
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
  // `launcher` reads the settings from launchers' variables; may throw std::runtime_error.
  SettingsCommand(const SettingsTable& table, LauncherSettings (*launcher)(const Lookup& lookup))
      : table_(table), launcher_(launcher) {}
  SettingsCommand(const SettingsCommand&) = delete;
  SettingsCommand& operator=(const SettingsCommand&) = delete;

  void add_options(command_line::Command& command);  // adds the options; this object must outlive parsing
  bool any_given() const;                            // whether any of the options was given
  // Prints the settings (--check-config) or problems, or calls `act`. Exit status: 2 for problems.
  int run(const std::function<int(const ServerSettings&)>& act) const;

 private:
  std::string config_file() const;
  FoundSettings found() const;
  void check_start(FoundSettings& all) const;

  const SettingsTable& table_;
  LauncherSettings (*launcher_)(const Lookup& lookup);
  std::string config_;
  bool check_ = false;
  std::map<std::string, std::string> values_;  // values by the setting's name
  std::vector<std::pair<std::string, command_line::Option>> flags_;
};

}  // namespace heddle::tool
