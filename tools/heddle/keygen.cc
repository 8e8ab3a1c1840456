// heddle keygen: makes the key by which ranks on several hosts authenticate each other.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <heddle/comm_keys.h>

#include "command.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string directory;
  bool force = false;
  std::string roles = "worker,server", jobs;
};

int run(const Options& options) {
  const std::string usual = comm_keys_directory();
  const std::string directory =
      options.directory.empty() ? usual : std::filesystem::absolute(options.directory).string();
  const CommKey key = make_comm_key(directory, options.force, options.roles, options.jobs);
  std::printf("%s\n\n", key.line.c_str());
  std::printf("The private key is in %s, the one for ZeroMQ in comm.curve beside it; show them to nobody.\n",
              key.file.c_str());
  std::printf("The keys that may take part in your jobs are in %s; the line above is there.\n\n",
              key.allowed_file.c_str());
  std::printf(
      "Hosts that share this directory need nothing more. To the others, either copy it:\n"
      "    rsync -a --chmod=D700,F600 %s/ HOST:%s/\n"
      "or run heddle keygen there, and give each host's comm.allowed the lines of the others.\n",
      directory.c_str(), directory.c_str());
  if (directory != usual)
    std::printf("Jobs look there when HEDDLE_COMM_KEYS=%s is set.\n", directory.c_str());
  return 0;
}

constexpr const char* kDescription =
    "Makes the key by which your ranks on several hosts know each other, and by which they encrypt (TLS "
    "1.3).\n\n"
    "    heddle keygen                once, where all hosts share the home directory\n"
    "    heddle keygen --out keys     elsewhere; jobs find it by HEDDLE_COMM_KEYS=keys\n"
    "    heddle keygen --force        a new key in place of the old one\n"
    "    heddle keygen --roles worker the key of a host that has no servers\n"
    "    heddle keygen --roles admin  the key of somebody who looks after servers\n"
    "    heddle keygen --roles worker --jobs 'team-a-*,eval'   the key of a team's workers\n\n"
    "It writes comm.key, the private key, comm.curve, the one for ZeroMQ, and adds their line to "
    "comm.allowed, the list of keys that may take "
    "part in\n"
    "your jobs, as ssh's authorized_keys does: one line a key, the rest of the line is a comment. Only you "
    "can read\n"
    "them; files that others can read or change are not used. The directory is HEDDLE_COMM_KEYS, else heddle "
    "in\n"
    "XDG_CONFIG_HOME, else ~/.config/heddle. With keys, everything that leaves a host is encrypted, and "
    "whoever has\n"
    "no key of the list is refused. A line's roles say what its key may do in key-value stores: roles:worker "
    "push and\n"
    "pull, roles:server be a server or the scheduler, roles:admin ask how servers are and let them drain, "
    "roles:worker,server\n"
    "both of these. Without them it is a worker's. jobs:team-a-*,eval lets it join jobs of these names only. "
    "heddle doctor says what would be used.";

}  // namespace

void add_keygen(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("keygen", kDescription);
  command.add_option("--out", options->directory, "the directory to write to").type_name("DIR");
  command.add_option("--roles", options->roles, "what its processes may do in key-value stores")
      .type_name("ROLES");
  command
      .add_option("--jobs", options->jobs,
                  "which jobs its workers may join; * stands for any text; without it: all")
      .type_name("NAMES");
  command.add_flag("--force", options->force, "replace the key that is there; other hosts have to be told");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
