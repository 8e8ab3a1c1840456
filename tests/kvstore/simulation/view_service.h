// Decides who is primary and who backup of each shard, by the rules that a scheduler has, as simply as can be.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "wire/views.h"

namespace heddle::kv_detail::sim {

class ViewService {
 public:
  explicit ViewService(std::size_t shards) { views.shards.resize(shards); }

  void came(std::uint32_t number, std::uint64_t incarnation, const std::string& address);
  void is_gone(std::uint64_t incarnation, bool gone);  // or seems to be
  void synced(std::uint32_t shard, std::uint64_t epoch) { synced_.emplace(shard, epoch); }
  // A process has been told of the views of this version.
  void told(std::uint64_t incarnation, std::uint64_t version);
  bool is_synced(std::uint32_t shard) const { return synced_.contains({shard, views.shards[shard].epoch}); }
  // Changes the views where there is a reason. True: it has.
  bool decide();

  Views views;

 private:
  struct Server {
    std::uint32_t number = 0;
    bool gone = false;
    std::uint64_t version = 0;  // of the newest views that it was told of
  };
  bool is_up(std::uint64_t incarnation) const;
  std::uint64_t other_than(std::uint64_t primary) const;
  bool decide(std::uint32_t shard);

  std::map<std::uint64_t, Server> servers_;  // by incarnation
  std::set<std::pair<std::uint32_t, std::uint64_t>> synced_;
};

}  // namespace heddle::kv_detail::sim
