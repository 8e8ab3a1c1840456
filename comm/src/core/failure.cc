#include "core/failure.h"

#include <heddle/error.h>

namespace heddle::comm_detail {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

PeerLost peer_lost(const std::string& text, int rank) {
  return {text + "; shrink() goes on without it, grow() with a process that takes its place", rank};
}

void Failure::raise() const {
  switch (type) {
    case Type::mismatch:
      throw CommMismatch(text);
    case Type::lost:
      throw peer_lost(text, rank);
    case Type::silent:
      throw PeerSilent(text, rank);
    case Type::aborted:
      break;
  }
  throw CommAborted(text);
}

std::string message_of(const std::exception_ptr& error) {
  ErrorReport report;
  report.exception = error;
  return report.message();
}

}  // namespace heddle::comm_detail
