// heddle server drain: tells a server to drain, also on another host.
#include <cstdio>
#include <memory>

#include "server/administration_options.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

constexpr const char* kDescription =
    "Tells a server to drain, as its first SIGTERM does: it hands its part to its backup, or takes no new "
    "job, and ends\n"
    "when it has nothing left.\n\n"
    "    heddle server drain --at server-1:9463\n\n"
    "The server lets this user's key do it if its line in the server's comm.allowed has roles:admin; on one "
    "host a process\n"
    "of the server's user needs no key. Exit code 1: the server refuses, or cannot be reached.";

int run(const AdministrationArguments& arguments) {
  ask_server_to_drain(arguments.options());
  std::printf("%s drains\n", arguments.at.c_str());
  return 0;
}

}  // namespace

void add_server_drain(command_line::Command& server, Action& action) {
  auto arguments = std::make_shared<AdministrationArguments>();
  command_line::Command command = server.add_command("drain", kDescription);
  add_administration_options(command, *arguments);
  command.on_parsed([arguments, &action] {
    if (arguments->at.empty()) throw command_line::Misuse("--at is required: where the server serves");
    action = [arguments] { return run(*arguments); };
  });
}

}  // namespace heddle::tool
