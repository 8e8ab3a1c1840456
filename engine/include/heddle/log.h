// What the engine has to say when nobody is there to catch an exception: errors that nobody has seen, a watchdog's report,
// a trace that is not complete.
#pragma once

#include <functional>
#include <string_view>

namespace heddle {

// Called with a text of one line or several, without "\n" at the end. On any thread, perhaps on two at once, also while the
// process exits. It must neither throw nor call Heddle.
using LogFunction = std::function<void(std::string_view text)>;

// Replaces the log of the process; an empty function is stderr, which it is at first. The function lives until the last call
// of it has returned.
void set_log(LogFunction log);

// Hands the log a text, as above. On any thread.
void write_log(std::string_view text) noexcept;

}  // namespace heddle
