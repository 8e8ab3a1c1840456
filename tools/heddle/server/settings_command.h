// A command whose options are settings: flags, variables and a file, and --check-config.
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
  // `launcher`: what the variables of launchers say; may throw std::runtime_error.
  SettingsCommand(const SettingsTable& table, LauncherSettings (*launcher)(const Lookup& lookup))
      : table_(table), launcher_(launcher) {}
  SettingsCommand(const SettingsCommand&) = delete;
  SettingsCommand& operator=(const SettingsCommand&) = delete;

  void add_options(command_line::Command& command);  // this outlives the command's parsing
  bool any_given() const;                            // of the options
  // Prints what --check-config asks for and what is wrong; else calls `act`. The exit status: 2 for settings that cannot be.
  int run(const std::function<int(const ServerSettings&)>& act) const;

 private:
  std::string config_file() const;
  FoundSettings found() const;
  void check_start(FoundSettings& all) const;

  const SettingsTable& table_;
  LauncherSettings (*launcher_)(const Lookup& lookup);
  std::string config_;
  bool check_ = false;
  std::map<std::string, std::string> values_;  // by the setting's name
  std::vector<std::pair<std::string, command_line::Option>> flags_;
};

}  // namespace heddle::tool
