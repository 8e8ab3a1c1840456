// How ranks find each other before they have a back end: an all_gather of small texts.
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
  // Identifies the communicator that is made: equal on all ranks, and different for each communicator of a job.
  virtual std::uint32_t epoch() const = 0;

  // The texts of all ranks, by rank; each at most 64 KiB. Blocks; throws CommError naming the ranks that have not sent
  // theirs in time.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // Throws if a rank is known to have failed. Called repeatedly by code that waits for ranks by other means
  // than all_gather().
  virtual void check() {}
};

// Rank 0 listens at job.rendezvous; the other ranks try to connect until `timeout` has passed. Processes that connect
// to a unix socket must belong to the same user (SO_PEERCRED); those that connect to a port need a key if `security`
// says so.
std::unique_ptr<Rendezvous> make_rendezvous(
    const LaunchEnvironment& job, std::chrono::milliseconds timeout,
    const SecurityPolicy& security = SecurityPolicy::from_environment());

}  // namespace heddle::comm_detail
