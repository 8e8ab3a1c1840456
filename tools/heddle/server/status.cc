// heddle server status: what a server's metrics say, for people.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "server/http_client.h"
#include "server/metrics.h"
#include "server/report.h"
#include "server/subcommands.h"
#include "simulate/units.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string address = "127.0.0.1:9464", interval = "1s", timeout = "5s";
  bool json = false;
};

std::chrono::milliseconds milliseconds_from(const std::string& text) {
  constexpr double kMost = 3600;
  const double seconds = seconds_from(text);
  if (seconds > kMost) throw std::runtime_error("'" + text + "': want an hour at most");
  return std::chrono::milliseconds(static_cast<long long>(seconds * 1000));
}

ServerSnapshot sample(const Options& options) {
  const HttpAnswer answer = http_get(options.address, "/metrics", milliseconds_from(options.timeout));
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
    "    heddle server status --json --interval 0s       one sample, without rates\n\n"
    "It reads /metrics twice, an interval apart. A worker whose clock is more than 2 behind the median of "
    "its job\n"
    "is named as a straggler. Exit code 1: the server cannot be reached.";

std::string problem_of(const std::string& text) {
  try {
    milliseconds_from(text);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void add_server_status(command_line::Command& server, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = server.add_command("status", kDescription);
  command.add_option("address,--metrics", options->address, "of the metrics, or their whole http:// address")
      .show_default()
      .type_name("HOST:PORT");
  command.add_option("--interval", options->interval, "between the two samples; 0s: only one")
      .show_default()
      .check(problem_of)
      .type_name("TIME");
  command.add_option("--timeout", options->timeout, "how long to wait for an answer")
      .show_default()
      .check(problem_of)
      .type_name("TIME");
  command.add_flag("--json", options->json, "print JSON; times are in seconds, sizes in bytes");
  command.on_parsed([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace heddle::tool
