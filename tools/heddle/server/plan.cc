// heddle server plan: what each server would hold of a model.
#include <cstdio>
#include <memory>
#include <string>

#include "server/plan_report.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

int run(ServerPlan plan) {
  plan.keys = safetensors_keys(plan.file);
  const std::string text = plan_text(plan);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

constexpr const char* kDescription =
    "Says which key of a model lives on which server, and what each server will hold and carry.\n\n"
    "    heddle server plan model.safetensors --servers 4\n"
    "    heddle server plan model.safetensors --servers 4 --placement hash --optimizer adam --workers 16\n\n"
    "A value above 1 MiB times the number of servers is split evenly over all of them. For --memory-limit, "
    "add what\n"
    "pushes need that wait for their round: up to the size of the values for each worker.";

}  // namespace

void add_server_plan(command_line::Command& server, Action& action) {
  auto plan = std::make_shared<ServerPlan>();
  plan->placement = "greedy";
  plan->optimizer = "sgd";
  command_line::Command command = server.add_command("plan", kDescription);
  command.add_option("file", plan->file, "the model, as save_safetensors writes it")
      .required()
      .type_name("FILE.safetensors");
  command.add_option("--servers", plan->servers, "how many").show_default().range(1, 65'536).type_name("N");
  command.add_option("--workers", plan->workers, "that push and pull all keys in a step")
      .show_default()
      .range(1, 1'000'000)
      .type_name("N");
  command.add_option("--placement", plan->placement, "greedy, round_robin or hash")
      .show_default()
      .one_of({"greedy", "round_robin", "hash"})
      .type_name("NAME");
  command
      .add_option("--optimizer", plan->optimizer,
                  "whose state the servers hold: sgd, momentum, adam or adamw")
      .show_default()
      .one_of({"sgd", "momentum", "adam", "adamw"})
      .type_name("NAME");
  command.on_parsed([plan, &action] { action = [plan] { return run(*plan); }; });
}

}  // namespace heddle::tool
