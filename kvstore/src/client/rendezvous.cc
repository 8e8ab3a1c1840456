#include "client/rendezvous.h"

#include <utility>

#include <heddle/log.h>
#include <heddle/store_error.h>

#include "client/wait_notice.h"

namespace heddle::kv_detail {

Rendezvous::Rendezvous(Transport& transport, MemberOptions self)
    : transport_(transport), member_(transport, std::move(self)) {
  member_.on_views = [this](const Views& views) { follow(views); };
}

void Rendezvous::wait(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  WaitNotice notice;
  while (member_.views().version == 0) {
    member_.tick(Clock::now());
    transport_.poll(std::chrono::duration_cast<std::chrono::microseconds>(member_.interval()));
    if (member_.is_refused()) throw StoreError(member_.why());
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun);
    if (notice.due(waited))
      write_log("KVStore: waiting for the scheduler and its servers, for " + std::to_string(waited.count()) +
                " s: " + member_.why());
    const auto lost = Clock::now() - member_.lost_since();
    if (!member_.is_registered() && lost > limit)
      throw StoreError(member_.why() + "; tried for " +
                       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(lost).count()) +
                       " s. Is the scheduler running?");
  }
  moved_.clear();
}

void Rendezvous::follow(const Views& views) {
  addresses_.resize(views.shards.size());
  primaries_.resize(views.shards.size());
  for (std::size_t shard = 0; shard < views.shards.size(); ++shard) {
    const std::uint64_t primary = views.shards[shard].primary;
    const ServerInfo* const server = find_server(views, primary);
    const std::string address = server ? server->address : "";
    if (primaries_[shard] == primary && addresses_[shard] == address) continue;
    primaries_[shard] = primary;
    addresses_[shard] = address;
    moved_.push_back(shard);
  }
}

std::vector<std::size_t> Rendezvous::take_moved() { return std::exchange(moved_, {}); }

}  // namespace heddle::kv_detail
