// How a worker finds the servers through a scheduler, and follows them when they change.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "membership/member.h"

namespace heddle::kv_detail {

class Rendezvous {
 public:
  // As in Client: the owner's transport, whose events it forwards to member().
  Rendezvous(Transport& transport, MemberOptions self);

  Member& member() { return member_; }
  // Polls the transport until the scheduler has said where all servers are. Throws StoreError if it refuses this worker, or
  // cannot be reached for so long. As long as it can be reached it decides itself how long to wait for servers.
  void wait(std::chrono::milliseconds limit);

  std::uint32_t rank() const { return member_.registered().number; }
  std::uint32_t workers() const { return member_.registered().workers; }
  // The address of each shard's primary; an empty address: no server has the shard now.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // The shards that another process keeps than when this was called before.
  std::vector<std::size_t> take_moved();

 private:
  void follow(const Views& views);

  Transport& transport_;
  Member member_;
  std::vector<std::string> addresses_;
  std::vector<std::uint64_t> primaries_;  // incarnations
  std::vector<std::size_t> moved_;
};

}  // namespace heddle::kv_detail
