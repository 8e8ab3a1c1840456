// heddle server: runs a server of a key-value store; subcommands inspect one.
#include <memory>
#include <stdexcept>

#include "command.h"
#include "server/serve.h"
#include "server/settings_command.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

// Runs a server, or the scheduler if the environment variable DMLC_ROLE is "scheduler": DMLC's launchers
// start the same program in all roles.
int run(const SettingsCommand& server) {
  const std::string role = launcher_role(environment_variable);
  if (role == "worker")
    throw std::runtime_error("DMLC_ROLE is 'worker': this is a server; a worker is a program with a KVStore");
  if (role != "scheduler") return server.run(&serve);
  if (server.any_given())
    throw std::runtime_error("DMLC_ROLE is 'scheduler': its options are those of heddle scheduler");
  return SettingsCommand(scheduler_table(), &launcher_settings_of_scheduler).run(&serve_scheduler);
}

constexpr const char* kDescription =
    "Serves a key-value store: keeps values, sums what workers push, and updates them.\n\n"
    "    heddle server                            on this host, for workers of this host\n"
    "    heddle server --config server.toml --check-config\n"
    "    heddle server status                     who is connected, and who is behind\n"
    "    heddle server drain --at server-1:9463   as SIGTERM, from anywhere, by a key with roles:admin\n"
    "    heddle server plan model.safetensors --servers 2\n"
    "    heddle server verify /var/lib/heddle     what is in its snapshots\n"
    "    heddle server restore /var/lib/heddle --servers 3 --out snapshots-of-3\n\n"
    "Two servers of one job, each with half of the keys; keys of heddle keygen let only you in:\n\n"
    "    a$ heddle server --listen eth0:9463 --number 0 --servers 2 --memory-limit 8GiB\n"
    "    b$ heddle server --listen eth0:9463 --number 1 --servers 2 --memory-limit 8GiB\n\n"
    "With a scheduler, which tells workers where servers are and gives numbers:\n\n"
    "    heddle server --listen eth0:0 --scheduler a:9462\n\n"
    "Behind a service manager: tools/deploy has a unit of systemd, a manifest for Kubernetes and a file of "
    "settings.\n"
    "The server says READY=1 to NOTIFY_SOCKET, and /healthz to whoever asks.\n\n"
    "    ExecStart=/usr/bin/heddle server --config /etc/heddle/server.toml --log-format json\n\n"
    "Each setting is a flag, a variable or a line of the file, in this order: --memory-limit 8GiB,\n"
    "HEDDLE_SERVER_MEMORY_LIMIT=8GiB, memory-limit = \"8GiB\". A variable that is empty is not set.\n\n"
    "SIGTERM and SIGINT let the server drain, and end with exit code 0: when its backup has taken its part, "
    "or, "
    "if it has\n"
    "none, when the workers have left; no new job is taken meanwhile. A second one ends it at once, with 1, "
    "and so does\n"
    "SIGQUIT: workers that are there wait for it, or for its backup. SIGHUP opens "
    "the log file again. Exit code 2: settings that cannot be.\n\n"
    "With --snapshots the server writes its state to a folder, every --snapshot-interval and when it ends, "
    "and goes\n"
    "on with the newest good one when it is started again. Workers that wait for it go on, if nothing that "
    "it had\n"
    "acknowledged is lost; otherwise they are told, and the job starts anew from its last checkpoint.";

}  // namespace

void add_server(Program& program, Action& action) {
  auto server = std::make_shared<SettingsCommand>(server_table(), &launcher_settings_of_server);
  command_line::Command command = program.add_command("server", kDescription);
  server->add_options(command);
  add_server_status(command, action);
  add_server_plan(command, action);
  add_server_verify(command, action);
  add_server_restore(command, action);
  add_server_drain(command, action);
  command.commands_optional();
  command.on_parsed([server, &action] { action = [server] { return run(*server); }; });
}

}  // namespace heddle::tool
