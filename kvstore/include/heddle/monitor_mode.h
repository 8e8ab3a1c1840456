// What callbacks of fit() that watch a value take for better.
#pragma once

namespace heddle {

// Whether less or more of a monitored value is better. automatic: more, unless its name has "loss", "error", "perplexity"
// or "distance".
enum class MonitorMode { automatic, min, max };

}  // namespace heddle
