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
  // The owner of `transport` forwards events of the scheduler's connection to member().
  Rendezvous(Transport& transport, MemberOptions self);

  Member& member() { return member_; }
  // Polls the transport until the scheduler has named all servers. Throws StoreError if the scheduler refuses
  // this worker or is unreachable for `limit`. How long to wait for servers is up to the scheduler.
  void wait(std::chrono::milliseconds limit);

  std::uint32_t rank() const { return member_.registered().number; }
  std::uint32_t workers() const { return member_.registered().workers; }
  // The address of each shard's primary; empty: no server has the shard now.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // The shards whose primary, or the primary's address, has changed since the last call.
  std::vector<std::size_t> take_moved();

 private:
  void follow(const Views& views);

  Transport& transport_;
  Member member_;
  std::vector<std::string> addresses_;
  std::vector<std::uint64_t> primaries_;  // incarnation of each shard's primary
  std::vector<std::size_t> moved_;
};

}  // namespace heddle::kv_detail
