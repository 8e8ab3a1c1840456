// Loops inside an op that share the engine's workers.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle {

// Runs body(begin, end) over [0, count) in chunks of `grain` (the last one shorter), on the calling op's engine:
// idle workers run chunks, and so does the caller, which returns when all chunks are done. The chunks depend on
// count and grain alone, never on the number of workers, so that sums of chunks are reproducible. Outside an op,
// or on an engine without free workers, the caller runs every chunk itself. The first exception is rethrown. Throws
// InvalidArgument if count is negative, or grain less than 1.
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace heddle
