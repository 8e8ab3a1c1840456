// Texts of placements, as users write them and as workers compare them.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <heddle/error.h>
#include <heddle/key.h>

#include "client/placement.h"
#include "files/path.h"
#include "transport/fnv1a.h"

namespace heddle::kv_detail {
namespace {

constexpr std::string kExplicit = "explicit:";

// Adds an entry "KEY=SERVER". A key may have a '=' itself.
void add(PlacementRule& rule, const std::string& entry, const std::string& where) {
  const std::size_t middle = entry.rfind('=');
  int server = -1;
  if (middle != std::string::npos) {
    const char* const end = entry.data() + entry.size();
    const auto [stopped, error] = std::from_chars(entry.data() + middle + 1, end, server);
    if (error != std::errc() || stopped != end) server = -1;
  }
  if (server < 0 || middle == 0)
    throw InvalidArgument("placement, " + where + ": '" + entry + "' is not KEY=SERVER");
  if (!rule.servers.emplace(Key(entry.substr(0, middle)).text(), server).second)
    throw InvalidArgument("placement, " + where + ": the key '" + entry.substr(0, middle) +
                          "' is there twice");
}

void read_file(PlacementRule& rule, const std::string& path) {
  ndarray_detail::check_path(path);
  std::ifstream file(path);
  if (!file) throw Error("the placement's file " + path + " cannot be read");
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) add(rule, line, path + ", line " + std::to_string(number));
  }
}

}  // namespace

PlacementRule placement_from(const std::string& text) {
  if (text == "greedy") return Placement::greedy;
  if (text == "round_robin") return Placement::round_robin;
  if (text == "hash") return Placement::hash;
  if (!text.starts_with(kExplicit))
    throw InvalidArgument("placement '" + text +
                          "': want hash, greedy, round_robin, explicit:KEY=SERVER,... or explicit:@FILE");
  PlacementRule rule(Placement::by_list);
  const std::string list = text.substr(kExplicit.size());
  if (list.starts_with('@')) {
    read_file(rule, list.substr(1));
  } else {
    std::istringstream entries(list);
    for (std::string one; std::getline(entries, one, ',');) add(rule, one, "explicit");
  }
  if (rule.servers.empty()) throw InvalidArgument("placement '" + text + "' names no key");
  return rule;
}

std::string PlacementRule::text() const {
  if (kind == Placement::greedy) return "greedy";
  if (kind == Placement::round_robin) return "round_robin";
  if (kind == Placement::hash) return "hash";
  std::uint64_t hash = net_detail::kFnvBegin;
  for (const auto& [key, server] : servers)
    hash = net_detail::fnv1a(key + "=" + std::to_string(server) + "\n", hash);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return "explicit " + std::string(digits);
}

}  // namespace heddle::kv_detail
