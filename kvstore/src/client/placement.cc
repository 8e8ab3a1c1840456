#include "client/placement.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <heddle/error.h>

namespace heddle::kv_detail {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char one : text) hash = (hash ^ static_cast<unsigned char>(one)) * 1099511628211u;
  return hash;
}

// The finalizer of SplitMix64: each bit of the result depends on all bits of the number.
std::uint64_t mix(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

bool is_split(const KeySize& one, int servers) {
  return servers > 1 && one.bytes > kSplitBytes * static_cast<std::uint64_t>(servers);
}

void check(const std::vector<KeySize>& keys, int servers) {
  if (servers < 1)
    throw InvalidArgument("placement: " + std::to_string(servers) + " servers; there is 1 at least");
  std::set<std::string_view> seen;
  for (const KeySize& one : keys) {
    if (!seen.insert(one.key).second)
      throw InvalidArgument("placement: the key '" + one.key + "' is there twice");
  }
}

// What a split value is cut into: whole rows, aligned if that leaves all servers about as many bytes. Too few rows are cut.
std::uint64_t unit_of(const KeySize& one, int servers) {
  constexpr std::uint64_t kUnitsEach = 8, kLongestRow = std::uint64_t{1} << 40;
  const std::uint64_t wanted = kUnitsEach * static_cast<std::uint64_t>(servers);
  if (one.row_bytes == 0 || one.row_bytes > kLongestRow) return kPartAlignment;
  const std::uint64_t aligned = std::lcm(one.row_bytes, kPartAlignment);
  if (one.bytes / aligned >= wanted) return aligned;
  return one.bytes / one.row_bytes >= wanted ? one.row_bytes : kPartAlignment;
}

// Where a part of a split value ends. Parts differ by one unit at most: the last part, which gets the rest of the
// bytes, is none of those with one more.
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

// The server of each key that is not split, by the key's index.
std::vector<int> greedy_servers(const std::vector<KeySize>& keys, int servers) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&keys](std::size_t a, std::size_t b) {
    return keys[a].bytes != keys[b].bytes ? keys[a].bytes > keys[b].bytes : keys[a].key < keys[b].key;
  });
  // Split values load all servers alike.
  std::vector<std::uint64_t> load(static_cast<std::size_t>(servers), 0);
  std::vector<int> result(keys.size(), 0);
  for (const std::size_t index : order) {
    if (is_split(keys[index], servers)) continue;
    const auto least = std::min_element(load.begin(), load.end());
    *least += keys[index].bytes;
    result[index] = static_cast<int>(least - load.begin());
  }
  return result;
}

std::vector<int> round_robin_servers(const std::vector<KeySize>& keys, int servers) {
  std::vector<int> result(keys.size(), 0);
  int next = 0;
  for (std::size_t index = 0; index < keys.size(); ++index) {
    if (is_split(keys[index], servers)) continue;
    result[index] = next;
    next = (next + 1) % servers;
  }
  return result;
}

std::vector<int> hash_servers(const std::vector<KeySize>& keys, int servers) {
  std::vector<int> result;
  for (const KeySize& one : keys) result.push_back(hash_server(one.key, servers));
  return result;
}

std::vector<int> servers_of(const std::vector<KeySize>& keys, int servers, Placement placement) {
  if (placement == Placement::greedy) return greedy_servers(keys, servers);
  return placement == Placement::hash ? hash_servers(keys, servers) : round_robin_servers(keys, servers);
}

}  // namespace

Placement placement_from(std::string_view name) {
  if (name == "greedy") return Placement::greedy;
  if (name == "round_robin") return Placement::round_robin;
  if (name == "hash") return Placement::hash;
  throw InvalidArgument("placement '" + std::string(name) + "': want greedy, round_robin or hash");
}

int hash_server(std::string_view key, int servers) {
  const std::uint64_t name = fnv1a(key);
  int best = 0;
  std::uint64_t most = 0;
  for (int server = 0; server < servers; ++server) {
    const std::uint64_t weight = mix(name ^ mix(static_cast<std::uint64_t>(server) + 0x9e3779b97f4a7c15u));
    if (server == 0 || weight > most) most = weight, best = server;
  }
  return best;
}

std::vector<KeyPart> place_keys(const std::vector<KeySize>& keys, int servers, Placement placement) {
  check(keys, servers);
  const std::vector<int> server = servers_of(keys, servers, placement);
  std::vector<KeyPart> parts;
  for (std::size_t index = 0; index < keys.size(); ++index) {
    if (is_split(keys[index], servers)) {
      append_split(parts, keys[index], servers);
    } else {
      parts.push_back({keys[index].key, 0, keys[index].bytes, server[index]});
    }
  }
  return parts;
}

}  // namespace heddle::kv_detail
