#include <atomic>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <unistd.h>

#include "server/http_server.h"
#include "server/notify.h"
#include "server/reports/scheduler_metrics.h"
#include "server/serve.h"
#include "server/signals.h"
#include "server/start_check.h"

namespace heddle::tool {
namespace {

using Level = ServerEvent::Level;

StoreSchedulerOptions options_with_log(const ServerSettings& settings, Log& log) {
  StoreSchedulerOptions options = settings.scheduler;
  options.log = [&log](const ServerEvent& event) { log.write(event); };
  return options;
}

std::string path_of_state(const StoreSchedulerOptions& options) {
  if (!options.etcd.urls.empty()) return options.etcd.urls + " " + options.etcd.prefix;
  return options.state_file.empty() ? "none" : options.state_file;
}

class SchedulerService {
 public:
  SchedulerService(const ServerSettings& settings, Log& log)
      : settings_(settings), log_(log), scheduler_(options_with_log(settings, log)) {
    const auto metrics = [this] { return scheduler_metrics_text(scheduler_.stats(), scheduler_.address()); };
    // The scheduler always counts as ready if it answers: servers must be able to reach it while it still
    // waits for them.
    const auto ready = [this] { return scheduler_.stats().uptime >= 0; };
    if (!settings.metrics.empty())
      pages_.emplace(settings.metrics, PageHandlers{.metrics = metrics, .ready = ready});
  }

  int run() {
    const SignalThread signals([this](int signal) { handle(signal); });
    const StoreSchedulerOptions& options = settings_.scheduler;
    for (const std::string& note : settings_.notes) log_.write({Level::warning, "setting", {{"note", note}}});
    log_.write({Level::info,
                "started",
                {{"address", scheduler_.address()},
                 {"transport", options.transport},
                 {"servers", std::to_string(options.servers)},
                 {"workers", options.workers > 0 ? std::to_string(options.workers) : "any"},
                 {"state", path_of_state(options)},
                 {"version", std::to_string(scheduler_.stats().version)},
                 {"metrics", pages_ ? pages_->address() : "off"},
                 {"pid", std::to_string(::getpid())}}});
    notify_manager("READY=1\nSTATUS=scheduling at " + scheduler_.address());
    scheduler_.run();
    log_.write({Level::info, "ended", {{"how", stopped_ ? "stopped" : "over"}}});
    return 0;
  }

 private:
  // Handles a signal; runs on the thread of the SignalThread.
  void handle(int signal) {
    if (signal == SIGHUP) {
      const bool worked = log_.reopen();
      log_.write({worked ? Level::info : Level::error, "log_reopened", {{"worked", worked ? "yes" : "no"}}});
      return;
    }
    log_.write({Level::info, "signal", {{"signal", name_of(signal)}, {"then", "stop"}}});
    notify_manager("STOPPING=1");
    stopped_ = true;
    scheduler_.stop();
  }

  const ServerSettings& settings_;
  Log& log_;
  std::atomic<bool> stopped_ = false;
  StoreScheduler scheduler_;
  std::optional<Pages> pages_;  // declared last and so destroyed first, since it uses scheduler_
};

}  // namespace

int serve_scheduler(const ServerSettings& settings) {
  block_server_signals();  // must precede the first thread, since threads inherit the blocked signals
  Log log(settings.log);
  const LibraryLog library(log);
  try {
    SchedulerService service(settings, log);
    return service.run();
  } catch (const std::exception& error) {
    log.write({Level::error, "failed", {{"reason", error.what()}}});
    const auto& options = settings.scheduler;
    // If the scheduler cannot listen, the exit status is 2: another start would fail in the same way.
    return why_not_served(options.listen, options.transport, options.keys).empty() ? 1 : 2;
  }
}

}  // namespace heddle::tool
