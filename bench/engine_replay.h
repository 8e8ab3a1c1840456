// The cases of engine_bench in which the same ops run again and again: dependences are found before the first run.
#pragma once

#include <cstdint>

namespace heddle::bench {

struct Options;

// Those whose name contains options.filter; `ops` a run if it is not 0. Prints a table, appends to options.json.
void run_replay_cases(std::uint32_t ops, const Options& options);

}  // namespace heddle::bench
