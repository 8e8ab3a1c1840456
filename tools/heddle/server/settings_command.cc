#include "settings_command.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "server/start_check.h"

namespace heddle::tool {
namespace {

constexpr int kMisused = 2;

}  // namespace

void SettingsCommand::add_options(command_line::Command& command) {
  const std::string variable = std::string(table_.prefix) + "CONFIG";
  command.add_option("--config", config_, "settings, a NAME = VALUE line each; or " + variable)
      .type_name("FILE");
  command.add_flag("--check-config", check_, "print all settings and who set them; exit code 0 or 2");
  for (const Setting& setting : table_.settings) {
    const std::string usual = *setting.usual ? std::string(" [") + setting.usual + "]" : "";
    command_line::Option option =
        command.add_option(std::string("--") + setting.name, values_[setting.name], setting.help + usual);
    flags_.emplace_back(setting.name, option.type_name(setting.type));
  }
}

bool SettingsCommand::any_given() const {
  return !config_.empty() ||
         std::any_of(flags_.begin(), flags_.end(), [](const auto& flag) { return flag.second.given(); });
}

std::string SettingsCommand::config_file() const {
  return config_.empty() ? environment_variable((std::string(table_.prefix) + "CONFIG").c_str()) : config_;
}

FoundSettings SettingsCommand::found() const {
  try {
    SettingSources sources{.environment = settings_environment(table_),
                           .file = config_file(),
                           .launcher = launcher_(environment_variable)};
    for (const auto& [name, option] : flags_) {
      if (option.given()) sources.flags[name] = values_.at(name);
    }
    if (!sources.file.empty()) sources.lines = parse_config(read_config_file(sources.file));
    return find_settings(sources, table_);
  } catch (const std::runtime_error& error) {  // the settings file or a launcher's variable cannot be read
    FoundSettings found;
    found.problems.push_back(error.what());
    return found;
  }
}

// For --check-config: checks that the process could listen at its address and reach its scheduler.
void SettingsCommand::check_start(FoundSettings& all) const {
  const bool scheduler = &table_ == &scheduler_table();
  const ServerOptions& server = all.settings.server;
  const StoreSchedulerOptions& other = all.settings.scheduler;
  const std::string why = scheduler ? why_not_served(other.listen, other.transport, other.keys)
                                    : why_not_served(server.listen, server.transport, server.keys);
  if (!why.empty()) all.problems.push_back("listen: " + why);
  if (scheduler || server.scheduler.empty()) return;
  if (const std::string not_reached = why_not_reached(server.scheduler, server.transport, server.keys);
      !not_reached.empty())
    all.problems.push_back("scheduler: " + not_reached);
}

int SettingsCommand::run(const std::function<int(const ServerSettings&)>& act) const {
  FoundSettings all = found();
  all.settings.notes = all.notes;
  if (check_) {
    if (all.problems.empty()) check_start(all);
    std::fputs(settings_table(all).c_str(), stdout);
    for (const std::string& note : all.notes) std::printf("note: %s\n", note.c_str());
  }
  for (const std::string& problem : all.problems) std::fprintf(stderr, "%s\n", problem.c_str());
  if (!all.problems.empty()) return kMisused;
  return check_ ? 0 : act(all.settings);
}

}  // namespace heddle::tool
