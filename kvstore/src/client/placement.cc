#include "client/placement.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <heddle/error.h>

#include "transport/fnv1a.h"

namespace heddle::kv_detail {
namespace {

// The finalizer of SplitMix64: each bit of the result depends on all bits of the number.
std::uint64_t mix(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

bool is_split(const KeySize& one, int servers) {
  return servers > 1 && one.bytes > kSplitBytes * static_cast<std::uint64_t>(servers);
}

void check(const std::vector<KeySize>& keys) {
  std::set<std::string_view> seen;
  for (const KeySize& one : keys) {
    if (!seen.insert(one.key).second)
      throw InvalidArgument("placement: the key '" + one.key + "' is there twice");
  }
}

// The unit that a value is split in: whole rows, aligned if servers still get about equal parts. A value with
// few rows is split within its rows.
std::uint64_t unit_of(const KeySize& one, int servers) {
  constexpr std::uint64_t kUnitsEach = 8, kLongestRow = std::uint64_t{1} << 40;
  const std::uint64_t wanted = kUnitsEach * static_cast<std::uint64_t>(servers);
  if (one.row_bytes == 0 || one.row_bytes > kLongestRow) return kPartAlignment;
  const std::uint64_t aligned = std::lcm(one.row_bytes, kPartAlignment);
  if (one.bytes / aligned >= wanted) return aligned;
  return one.bytes / one.row_bytes >= wanted ? one.row_bytes : kPartAlignment;
}

// End of a part of a split value, in bytes. Parts differ by one unit at most, and the first parts are the
// larger ones. The bytes of an incomplete unit are in the last part.
std::uint64_t split_end(std::uint64_t bytes, std::uint64_t unit, int part, int servers) {
  const std::uint64_t units = bytes / unit, count = static_cast<std::uint64_t>(servers);
  const std::uint64_t index = static_cast<std::uint64_t>(part) + 1;
  if (index == count) return bytes;
  return (units / count * index + (units % count * index + count - 1) / count) * unit;
}

void append_split(std::vector<KeyPart>& parts, const KeySize& one, int servers) {
  const std::uint64_t unit = unit_of(one, servers);
  std::uint64_t begin = 0;
  for (int server = 0; server < servers; ++server) {
    const std::uint64_t end = split_end(one.bytes, unit, server, servers);
    parts.push_back({one.key, begin, end - begin, server});
    begin = end;
  }
}

}  // namespace

int hash_server(std::string_view key, int servers) {
  const std::uint64_t name = net_detail::fnv1a(key);
  int best = 0;
  std::uint64_t most = 0;
  for (int server = 0; server < servers; ++server) {
    const std::uint64_t weight = mix(name ^ mix(static_cast<std::uint64_t>(server) + 0x9e3779b97f4a7c15u));
    if (server == 0 || weight > most) most = weight, best = server;
  }
  return best;
}

KeyPlacer::KeyPlacer(PlacementRule rule, int servers) : rule_(std::move(rule)), servers_(servers) {
  if (servers < 1)
    throw InvalidArgument("placement: " + std::to_string(servers) + " servers; there is 1 at least");
  for (const auto& [key, server] : rule_.servers) {
    if (server < servers) continue;
    throw InvalidArgument("placement: key '" + key + "' is to be on server " + std::to_string(server) +
                          "; the last of " + std::to_string(servers) + " is " + std::to_string(servers - 1));
  }
  if (rule_.kind == Placement::greedy) loads_.assign(static_cast<std::size_t>(servers), 0);
}

std::vector<KeyPart> KeyPlacer::place(const KeySize& key) {
  const bool listed = rule_.kind == Placement::by_list && rule_.servers.contains(key.key);
  if (listed || !is_split(key, servers_)) return {{key.key, 0, key.bytes, server_for(key)}};
  std::vector<KeyPart> parts;
  append_split(parts, key, servers_);
  return parts;
}

int KeyPlacer::server_for(const KeySize& key) {
  switch (rule_.kind) {
    case Placement::greedy: {
      const auto least = std::min_element(loads_.begin(), loads_.end());
      *least += key.bytes;
      return static_cast<int>(least - loads_.begin());
    }
    case Placement::round_robin:
      return std::exchange(next_, (next_ + 1) % servers_);
    case Placement::by_list:
      if (const auto found = rule_.servers.find(key.key); found != rule_.servers.end()) return found->second;
      break;
    case Placement::hash:
      break;
  }
  return hash_server(key.key, servers_);
}

std::vector<KeyPart> place_keys(const std::vector<KeySize>& keys, int servers, const PlacementRule& rule) {
  check(keys);
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (rule.kind == Placement::greedy) {
    std::sort(order.begin(), order.end(), [&keys](std::size_t a, std::size_t b) {
      return keys[a].bytes != keys[b].bytes ? keys[a].bytes > keys[b].bytes : keys[a].key < keys[b].key;
    });
  }
  KeyPlacer placer(rule, servers);
  std::vector<std::vector<KeyPart>> placed(keys.size());
  for (const std::size_t index : order) placed[index] = placer.place(keys[index]);
  std::vector<KeyPart> parts;
  for (auto& some : placed) parts.insert(parts.end(), some.begin(), some.end());
  return parts;
}

}  // namespace heddle::kv_detail
