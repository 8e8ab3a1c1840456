// The process of a Server or a StoreScheduler: log, HTTP pages, signals.
#pragma once

#include "server/settings.h"

namespace heddle::tool {

// Serves until the process is told to end. Returns the exit status: 0 if the server has drained until all
// workers left, 1 if it ended earlier or could not serve, 2 if a restart cannot help; the log says why.
int serve(const ServerSettings& settings);

// As serve(), for a scheduler: the first signal ends it with status 0.
int serve_scheduler(const ServerSettings& settings);

}  // namespace heddle::tool
