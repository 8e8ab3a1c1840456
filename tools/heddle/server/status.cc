// heddle server status: shows the metrics of a server as text for people.
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "server/administration_options.h"
#include "server/http_client.h"
#include "server/reports/metrics.h"
#include "server/reports/report.h"
#include "server/subcommands.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string address = "127.0.0.1:9464", interval = "1s";
  bool json = false;
  AdministrationArguments administration;
};

ServerSnapshot sample(const Options& options) {
  const AdministrationArguments& administration = options.administration;
  if (!administration.at.empty()) return snapshot_from(ask_server_status(administration.options()));
  const HttpAnswer answer = http_get(options.address, "/metrics", milliseconds_from(administration.timeout));
  if (answer.status != 200)
    throw std::runtime_error(options.address + ": HTTP status " + std::to_string(answer.status));
  return snapshot_from(answer.text);
}

int run(const Options& options) {
  const std::chrono::milliseconds interval = milliseconds_from(options.interval);
  ServerSnapshot now = sample(options);
  std::optional<ServerSnapshot> before;
  if (interval.count() > 0) {
    before = std::move(now);
    std::this_thread::sleep_for(interval);
    now = sample(options);
  }
  const ServerSnapshot* earlier = before ? &*before : nullptr;
  const std::string text = options.json ? status_json(now, earlier) : status_text(now, earlier);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

constexpr const char* kDescription =
    "Says who is connected to a server, how far each worker is, and what goes through.\n\n"
    "    heddle server status                            of this host\n"
    "    heddle server status server-1:9464              where that server's --metrics are\n"
    "    heddle server status --at server-1:9463         where it serves workers, by a key with roles:admin "
    "there\n"
    "    heddle server status --json --interval 0s       one sample, without rates\n\n"
    "It reads the metrics twice, an interval apart. A worker whose clock is more than 2 behind the median of "
    "its job\n"
    "is named as a straggler. Exit code 1: the server cannot be reached.";

}  // namespace

void add_server_status(command_line::Command& server, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = server.add_command("status", kDescription);
  command.add_option("address,--metrics", options->address, "of the metrics, or their whole http:// address")
      .show_default()
      .type_name("HOST:PORT");
  command.add_option("--interval", options->interval, "between the two samples; 0s: only one")
      .show_default()
      .check(problem_of_time)
      .type_name("TIME");
  add_administration_options(command, options->administration);
  command.add_flag("--json", options->json, "print JSON; times are in seconds, sizes in bytes");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
