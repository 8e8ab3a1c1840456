#include "simulation/view_service.h"

#include <algorithm>

namespace heddle::kv_detail::sim {

void ViewService::came(std::uint32_t number, std::uint64_t incarnation, const std::string& address) {
  servers_[incarnation] = {.number = number};
  std::erase_if(views.servers, [&](const ServerInfo& one) { return one.number == number; });
  views.servers.push_back({number, incarnation, address});
}

void ViewService::is_gone(std::uint64_t incarnation, bool gone) {
  const auto found = servers_.find(incarnation);
  if (found != servers_.end()) found->second.gone = gone;
}

void ViewService::told(std::uint64_t incarnation, std::uint64_t version) {
  std::uint64_t& newest = servers_.at(incarnation).version;
  newest = std::max(newest, version);
}

// A process whose number another one has is gone for good.
bool ViewService::is_up(std::uint64_t incarnation) const {
  const auto found = servers_.find(incarnation);
  return found != servers_.end() && !found->second.gone && find_server(views, incarnation);
}

std::uint64_t ViewService::other_than(std::uint64_t primary) const {
  for (const auto& [incarnation, server] : servers_) {
    if (incarnation != primary && is_up(incarnation)) return incarnation;
  }
  return 0;
}

bool ViewService::decide() {
  bool changed = false;
  for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) changed = decide(shard) || changed;
  if (changed) ++views.version;
  return changed;
}

bool ViewService::decide(std::uint32_t shard) {
  ShardView& view = views.shards[shard];
  const auto make = [&](std::uint64_t primary, std::uint64_t backup, bool fresh, bool handover = false) {
    view = {view.epoch + 1, primary, backup, fresh, handover};
    return true;
  };
  if (view.epoch == 0) {
    for (const ServerInfo& one : views.servers) {
      if (one.number == shard) return make(one.incarnation, other_than(one.incarnation), true);
    }
    return false;
  }
  // A primary that begins a shard must not hear of a later epoch first, which would not say so.
  if (view.fresh && servers_.at(view.primary).version == 0) return false;
  if (!is_up(view.primary)) {
    return (is_synced(shard) || view.handover) && is_up(view.backup) ? make(view.backup, 0, false) : false;
  }
  if (view.backup != 0 && !is_up(view.backup)) return make(view.primary, 0, false);
  if (view.backup == 0 && other_than(view.primary) != 0)
    return make(view.primary, other_than(view.primary), false);
  const bool is_home = view.backup != 0 && servers_.at(view.backup).number == shard;
  return is_home && is_synced(shard) ? make(view.backup, view.primary, false, true) : false;
}

}  // namespace heddle::kv_detail::sim
