// Why a communicator cannot be used any more: stored, sent to the other ranks, and thrown.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include <heddle/comm_error.h>

namespace heddle::comm_detail {

struct Failure {
  enum class Type : std::uint8_t { mismatch, lost, silent, aborted };
  static constexpr std::uint8_t kTypes = 4;

  Type type = Type::aborted;
  int rank = -1;  // the rank that is lost or silent
  std::string text{};

  // Throws this failure as a CommMismatch, PeerLost, PeerSilent or CommAborted.
  [[noreturn]] void raise() const;
};

// The error for a lost rank: `text` and the advice to call shrink() or grow().
PeerLost peer_lost(const std::string& text, int rank);

std::string rank_name(int rank);  // "rank 3"

// The exception's message, to be sent to other ranks.
std::string message_of(const std::exception_ptr& error);

}  // namespace heddle::comm_detail
