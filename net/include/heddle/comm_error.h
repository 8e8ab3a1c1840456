// The errors of communication. They arrive on the arrays of the call, like the errors of every op.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle {

// The base class of the errors of communication.
class CommError : public Error {
 public:
  using Error::Error;
};

// Ranks made different calls: the calls differ in kind, reduction, dtype, count, root or order. The text
// names two of them with their lines and ranks.
class CommMismatch : public CommError {
 public:
  using CommError::CommError;
};

// A rank's process has ended, or the rank left the communicator while others needed it. The communicator cannot be used
// any more; the other ranks can go on with Communicator::shrink or grow.
class PeerLost : public CommError {
 public:
  PeerLost(const std::string& what, int lost) : CommError(what), rank_(lost) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// A rank has sent no heartbeat for CommOptions::timeout: its process is stopped, or its host is lost.
class PeerSilent : public PeerLost {
 public:
  using PeerLost::PeerLost;
};

// The op that computes the input of another rank has failed there. Only this call fails.
class RemoteFailure : public CommError {
 public:
  RemoteFailure(const std::string& what, int failed) : CommError(what), rank_(failed) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// A rank called Communicator::abort, or the communicator was aborted because of an earlier error.
class CommAborted : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace heddle
