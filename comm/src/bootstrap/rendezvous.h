// How ranks find each other before they have a way to talk: small texts, all gathered.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/launch_environment.h>

#include "bootstrap/security.h"

namespace heddle::comm_detail {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::uint32_t epoch() const = 0;  // tells communicators of one job apart; the same on all ranks

  // Everybody's text, by rank; each at most 64 KiB. Blocks; throws CommError saying who has not come in time.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // For those who wait for a rank elsewhere: throws if it is known here that one will not come.
  virtual void check() {}
};

// Rank 0 listens where `job` says, the others keep trying until `timeout` has passed. A unix socket's peers must be
// processes of the same user (SO_PEERCRED); a port's have a key, as far as `security` wants that.
std::unique_ptr<Rendezvous> meet(const LaunchEnvironment& job, std::chrono::milliseconds timeout,
                                 const SecurityPolicy& security = SecurityPolicy::from_environment());

}  // namespace heddle::comm_detail
