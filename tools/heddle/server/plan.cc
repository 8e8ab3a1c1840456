// heddle server plan: how a model's values would be distributed over servers.
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "server/reports/plan_report.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

void write_placement(const ServerPlan& plan) {
  const std::string lines = placement_lines(plan);
  std::ofstream file(plan.write, std::ios::binary);
  file << lines;
  if (!file.flush()) throw std::runtime_error("cannot write " + plan.write);
}

int run(ServerPlan plan) {
  plan.keys = safetensors_keys(plan.file);
  const std::string text = plan_text(plan);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!plan.write.empty()) write_placement(plan);
  return 0;
}

constexpr const char* kDescription =
    "Says which key of a model lives on which server, and what each server will hold and carry.\n\n"
    "    heddle server plan model.safetensors --servers 4\n"
    "    heddle server plan model.safetensors --servers 4 --placement greedy --optimizer adam --workers "
    "16\n"
    "    heddle server plan model.safetensors --servers 4 --placement greedy --write places.txt\n"
    "    HEDDLE_STORE_PLACEMENT=explicit:@places.txt ./train\n\n"
    "Here greedy begins with the largest key. A store, which places a key when it is initialised, takes the "
    "server "
    "with\n"
    "the fewest bytes so far; with --write it does what this prints.\n\n"
    "A value above 1 MiB times the number of servers is split evenly over all of them. For --memory-limit, "
    "add what\n"
    "pushes need that wait for their round: up to the size of the values for each worker.";

}  // namespace

void add_server_plan(command_line::Command& server, Action& action) {
  auto plan = std::make_shared<ServerPlan>();
  plan->placement = "hash";  // the placement that stores use by default
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
  command
      .add_option("--placement", plan->placement,
                  "hash, greedy, round_robin, explicit:KEY=SERVER,... or explicit:@FILE")
      .show_default()
      .check(problem_with_placement)
      .type_name("PLACEMENT");
  command
      .add_option("--write", plan->write,
                  "a file for explicit:@FILE: KEY=SERVER of each key that is not split")
      .type_name("FILE");
  command.add_option("--optimizer", plan->optimizer, "whose state the servers hold; momentum is sgd with one")
      .show_default()
      .one_of(optimizers_of_servers())
      .type_name("NAME");
  command.on_parsed([plan, &action] { action = [plan] { return run(*plan); }; });
}

}  // namespace heddle::tool
