// The log of the process: what the engine reports when no caller can catch an exception, such as errors that
// no wait has thrown, a watchdog's report, a trace that is not complete.
#pragma once

#include <functional>
#include <string_view>

namespace heddle {

// Called with a text of one line or several, without "\n" at the end. On any thread, perhaps on two at once,
// also while the process exits. Must neither throw nor call Heddle.
using LogFunction = std::function<void(std::string_view text)>;

// Replaces the log of the process; an empty function restores the default, stderr. The function lives until
// its last call has returned.
void set_log(LogFunction log);

// Writes a text to the log of the process. Any thread.
void write_log(std::string_view text) noexcept;

}  // namespace heddle
