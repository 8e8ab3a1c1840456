// The process of a Server or a StoreScheduler: log, HTTP pages, signals.
#pragma once

#include "server/settings.h"

namespace heddle::tool {

// Runs a server until the process is told to end. Returns the exit status: 0 if the server has drained until
// all workers left, 1 if it ended earlier or could not serve, 2 if it could not serve and a restart would not
// help. The log says why.
int serve(const ServerSettings& settings);

// Runs a scheduler until the first signal to end, after which the status is 0. Otherwise like serve().
int serve_scheduler(const ServerSettings& settings);

}  // namespace heddle::tool
