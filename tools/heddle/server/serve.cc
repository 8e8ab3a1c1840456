#include "serve.h"

#include <atomic>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <unistd.h>

#include <heddle/memory.h>

#include "server/http_server.h"
#include "server/notify.h"
#include "server/reports/metrics.h"
#include "server/signals.h"
#include "server/start_check.h"

namespace heddle::tool {
namespace {

using Level = ServerEvent::Level;

// A server's number as text; "any" if the scheduler will assign it.
std::string number_text(int number) { return number < 0 ? "any" : std::to_string(number); }

class Service {
 public:
  Service(const ServerSettings& settings, Log& log) : settings_(settings), log_(log), server_(options()) {
    if (!settings.metrics.empty())
      pages_.emplace(settings.metrics,
                     PageHandlers{.metrics = [this] { return metrics_text(snapshot(server_.stats())); },
                                  .ready = [this] { return ready(); },
                                  .not_ready = [this] { return not_ready(); }});
  }

  int run() {
    const SignalThread signals([this](int signal) { handle(signal); });
    for (const std::string& note : settings_.notes) log_.write({Level::warning, "setting", {{"note", note}}});
    log_.write({Level::info,
                "started",
                {{"address", server_.address()},
                 {"transport", settings_.server.transport},
                 {"number", number_text(settings_.server.number)},
                 {"servers", std::to_string(settings_.server.servers)},
                 {"memory_limit", settings_.memory_limit},
                 {"metrics", pages_ ? pages_->address() : "off"},
                 {"pid", std::to_string(::getpid())}}});
    notify_manager("READY=1\nSTATUS=serving at " + server_.address());
    server_.run();
    const bool cut_short = stopped_ && !stopped_at_once_;
    log_.write(
        {cut_short ? Level::warning : Level::info, "ended", {{"how", stopped_ ? "stopped" : "drained"}}});
    return stopped_ ? 1 : 0;
  }

 private:
  ServerOptions options() {
    ServerOptions options = settings_.server;
    options.log = [this](const ServerEvent& event) { log_.write(event); };
    options.status = [this](const ServerStats& stats) { return metrics_text(snapshot(stats)); };
    return options;
  }

  ServerSnapshot snapshot(const ServerStats& stats) const {
    return {.address = server_.address(),
            .transport = settings_.server.transport,
            .number = stats.number,
            .servers = stats.servers,
            .memory_limit = settings_.server.memory_limit,
            .stats = stats};
  }

  // Whether the server accepts workers. The server's thread answers this, so if it hangs, the probe runs into
  // its timeout.
  bool ready() const { return !server_.is_draining() && !draining_; }
  std::string not_ready() const { return draining_ ? "draining" : server_.reason_not_ready(); }

  // Handles a signal; runs on the thread of the SignalThread.
  void handle(int signal) {
    if (signal == SIGHUP) {
      const bool worked = log_.reopen();
      log_.write({worked ? Level::info : Level::error, "log_reopened", {{"worked", worked ? "yes" : "no"}}});
      return;
    }
    const bool at_once = signal == SIGQUIT;
    const bool first = !draining_.exchange(true) && !at_once;
    log_.write({Level::info, "signal", {{"signal", name_of(signal)}, {"then", first ? "drain" : "stop"}}});
    notify_manager(first ? "STOPPING=1\nSTATUS=waiting for workers to leave" : "STATUS=stopping");
    if (first) return server_.drain();
    stopped_ = true;
    stopped_at_once_ = at_once;
    server_.stop();
  }

  const ServerSettings& settings_;
  Log& log_;
  std::atomic<bool> draining_ = false, stopped_ = false, stopped_at_once_ = false;
  Server server_;
  std::optional<Pages> pages_;  // declared last and so destroyed first, since it uses server_
};

}  // namespace

int serve(const ServerSettings& settings) {
  block_server_signals();  // must precede the first thread, since threads inherit the blocked signals
  Log log(settings.log);
  const LibraryLog library(log);
  // The memory limit does not count the allocator's cache, so the cache is kept small.
  if (settings.server.memory_limit != 0) cpu_allocator_cache_limit(settings.server.memory_limit / 16);
  try {
    Service service(settings, log);
    return service.run();
  } catch (const std::exception& error) {
    log.write({Level::error, "failed", {{"reason", error.what()}}});
    const auto& options = settings.server;
    // If this host is the reason, the exit status is 2: another start would fail in the same way.
    const bool local = !why_not_served(options.listen, options.transport, options.keys).empty() ||
                       (!options.scheduler.empty() &&
                        !why_not_reached(options.scheduler, options.transport, options.keys).empty());
    return local ? 2 : 1;
  }
}

}  // namespace heddle::tool
