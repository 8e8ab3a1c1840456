// heddle server: a server of a key-value store, and what looks at one.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "server/serve.h"
#include "server/settings.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

constexpr int kMisused = 2;
constexpr const char* kConfigVariable = "HEDDLE_SERVER_CONFIG";

struct Options {
  std::string config;
  bool check = false;
  std::map<std::string, std::string> values;  // by the setting's name
  std::vector<std::pair<std::string, command_line::Option>> flags;
};

std::string config_file(const Options& options) {
  const char* variable = std::getenv(kConfigVariable);
  return options.config.empty() && variable ? variable : options.config;
}

FoundSettings settings_of(const Options& options) {
  SettingSources sources{.environment = server_environment(), .file = config_file(options)};
  for (const auto& [name, option] : options.flags) {
    if (option.given()) sources.flags[name] = options.values.at(name);
  }
  if (!sources.file.empty()) sources.lines = parse_config(read_config_file(sources.file));
  return find_settings(sources);
}

FoundSettings found_or_problem(const Options& options) {
  try {
    return settings_of(options);
  } catch (const std::runtime_error& error) {  // the file cannot be read
    FoundSettings found;
    found.problems.push_back(error.what());
    return found;
  }
}

int run(const Options& options) {
  const FoundSettings found = found_or_problem(options);
  if (options.check) {
    std::fputs(settings_table(found).c_str(), stdout);
    for (const std::string& note : found.notes) std::printf("note: %s\n", note.c_str());
  }
  for (const std::string& problem : found.problems) std::fprintf(stderr, "%s\n", problem.c_str());
  if (!found.problems.empty()) return kMisused;
  return options.check ? 0 : serve(found.settings);
}

constexpr const char* kDescription =
    "Serves a key-value store: keeps values, sums what workers push, and updates them.\n\n"
    "    heddle server                            on this host, for workers of this host\n"
    "    heddle server --config server.toml --check-config\n"
    "    heddle server status                     who is connected, and who is behind\n"
    "    heddle server plan model.safetensors --servers 2\n\n"
    "Two servers of one job, each with half of the keys; keys of heddle keygen let only you in:\n\n"
    "    a$ heddle server --listen eth0:9463 --number 0 --servers 2 --memory-limit 8GiB\n"
    "    b$ heddle server --listen eth0:9463 --number 1 --servers 2 --memory-limit 8GiB\n\n"
    "Behind a service manager: tools/deploy has a unit of systemd, a manifest for Kubernetes and a file of "
    "settings.\n"
    "The server says READY=1 to NOTIFY_SOCKET, and /healthz to whoever asks.\n\n"
    "    ExecStart=/usr/bin/heddle server --config /etc/heddle/server.toml --log-format json\n\n"
    "Each setting is a flag, a variable or a line of the file, in this order: --memory-limit 8GiB,\n"
    "HEDDLE_SERVER_MEMORY_LIMIT=8GiB, memory-limit = \"8GiB\". A variable that is empty is not set.\n\n"
    "SIGTERM and SIGINT let the server drain: it takes no new worker and ends when those that are there have "
    "left,\n"
    "with exit code 0. A second one ends it at once, with 1. SIGHUP opens the log file again. Exit code 2: "
    "settings\n"
    "that cannot be.";

}  // namespace

void add_server(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("server", kDescription);
  command
      .add_option("--config", options->config, "settings, a NAME = VALUE line each; or HEDDLE_SERVER_CONFIG")
      .type_name("FILE");
  command.add_flag("--check-config", options->check, "print all settings and who set them; exit code 0 or 2");
  for (const Setting& setting : server_settings()) {
    const std::string usual = *setting.usual ? std::string(" [") + setting.usual + "]" : "";
    command_line::Option option = command.add_option(std::string("--") + setting.name,
                                                     options->values[setting.name], setting.help + usual);
    options->flags.emplace_back(setting.name, option.type_name(setting.type));
  }
  add_server_status(command, action);
  add_server_plan(command, action);
  command.commands_optional();
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
