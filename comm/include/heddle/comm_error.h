// What can go wrong between ranks. All of it arrives as an error on the arrays of the call, as every op's error does.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle {

// Base of all of them.
class CommError : public Error {
 public:
  using Error::Error;
};

// Ranks called different things: kind, reduction, dtype, count, root or order. Names both calls, their places and ranks.
class CommMismatch : public CommError {
 public:
  using CommError::CommError;
};

// A rank's process has ended, or it left the communicator while others were calling. The communicator is of no use any
// more; the survivors go on with Communicator::shrink or grow.
class PeerLost : public CommError {
 public:
  PeerLost(const std::string& what, int lost) : CommError(what), rank_(lost) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// A rank's process is there but has shown no sign of life for CommOptions::timeout: it is stopped, or its host is gone.
class PeerSilent : public PeerLost {
 public:
  using PeerLost::PeerLost;
};

// The op that should have computed what another rank was to send has failed there. Only this call fails with it.
class RemoteFailure : public CommError {
 public:
  RemoteFailure(const std::string& what, int failed) : CommError(what), rank_(failed) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// Somebody called Communicator::abort, or the communicator was given up because of an earlier error.
class CommAborted : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace heddle
