#include "engine/engine_peer.h"

namespace heddle::bench {

std::optional<PeerKind> starpu_peer() { return std::nullopt; }

}  // namespace heddle::bench
