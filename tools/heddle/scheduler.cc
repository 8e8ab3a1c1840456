// heddle scheduler: runs the scheduler by which servers and workers of a key-value store find each other.
#include <memory>

#include "command.h"
#include "server/serve.h"
#include "server/settings_command.h"

namespace heddle::tool {
namespace {

constexpr const char* kDescription =
    "Tells servers and workers of a key-value store where the others are, and decides which server keeps "
    "what.\n\n"
    "    a$ heddle scheduler --listen eth0:9462 --servers 2 --state /var/lib/heddle/scheduler.state\n"
    "    b$ heddle server --listen eth0:0 --scheduler a:9462\n"
    "    c$ heddle server --listen eth0:0 --scheduler a:9462\n"
    "    d$ HEDDLE_STORE_SCHEDULER=a:9462 heddle launch -n 2 ./train\n\n"
    "It may be ended and started anew with its state file: servers and workers go on meanwhile, but no "
    "server is\n"
    "replaced. With --etcd several of them, on different machines, agree on one that decides; when it is "
    "gone\n"
    "another one takes over. When a server is gone its backup takes over, if it has one that is complete: "
    "with "
    "two servers\n"
    "or more each part has a copy on another one, unless servers say --replicas 1.\n\n"
    "Each setting is a flag, a variable or a line of the file, in this order: --servers 2,\n"
    "HEDDLE_SCHEDULER_SERVERS=2, servers = 2. A variable that is empty is not set.\n\n"
    "SIGTERM, SIGINT and SIGQUIT end it, with exit code 0. SIGHUP opens the log file again. Exit code 1: it "
    "cannot go "
    "on, "
    "and the\n"
    "log says why. Exit code 2: settings that cannot be.";

}  // namespace

void add_scheduler(Program& program, Action& action) {
  auto scheduler = std::make_shared<SettingsCommand>(scheduler_table(), &launcher_settings_of_scheduler);
  command_line::Command command = program.add_command("scheduler", kDescription);
  scheduler->add_options(command);
  command.on_parsed(
      [scheduler, &action] { action = [scheduler] { return scheduler->run(&serve_scheduler); }; });
}

}  // namespace heddle::tool
