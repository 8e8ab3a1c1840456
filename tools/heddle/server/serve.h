// The process around a Server or a StoreScheduler: its log, its pages, its signals.
#pragma once

#include "server/settings.h"

namespace heddle::tool {

// Serves until the process is told to end. Returns the exit status: 0 after all workers have left a server that drained, 1 if
// it was ended before or could not serve; the log says why.
int serve(const ServerSettings& settings);

// The same for a scheduler, which a first signal ends with 0.
int serve_scheduler(const ServerSettings& settings);

}  // namespace heddle::tool
