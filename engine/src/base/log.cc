#include "base/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include <heddle/log.h>

#include "base/fork.h"

namespace heddle {
namespace {

struct Log {
  detail::ForkMutex mutex;  // guards `function`; nothing else is locked while it is held
  std::shared_ptr<const LogFunction> function;
};

// The log is never destroyed, since engines that static objects hold end late.
Log& the_log() {
  static Log& immortal = *new Log;
  return immortal;
}

}  // namespace

void set_log(LogFunction log) {
  auto function = log ? std::make_shared<const LogFunction>(std::move(log)) : nullptr;
  Log& state = the_log();
  const std::lock_guard guard(state.mutex);
  state.function.swap(function);  // the old function is destroyed without the lock
}

void detail::log(const std::string& text) noexcept {
  std::shared_ptr<const LogFunction> function;
  {
    Log& state = the_log();
    const std::lock_guard guard(state.mutex);
    function = state.function;
  }
  if (function) return (*function)(text);
  const std::string line = text + "\n";  // one write, so that the texts of several threads do not mix
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void write_log(std::string_view text) noexcept { detail::log(std::string(text)); }

}  // namespace heddle
