#include "client/placement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr Placement kAll[] = {Placement::greedy, Placement::round_robin, Placement::hash};

// Sizes as layers have them: a few large ones and many small ones.
std::vector<KeySize> some_keys(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<KeySize> keys;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t bytes = std::uint64_t{4} << (random() % 22);
    keys.push_back({"layer" + std::to_string(i) + ".weight", bytes + 4 * (random() % 100)});
  }
  return keys;
}

std::vector<std::uint64_t> loads(const std::vector<KeyPart>& parts, int servers) {
  std::vector<std::uint64_t> result(static_cast<std::size_t>(servers), 0);
  for (const KeyPart& part : parts) result.at(static_cast<std::size_t>(part.server)) += part.bytes;
  return result;
}

std::uint64_t largest_whole(const std::vector<KeySize>& keys, int servers) {
  std::uint64_t largest = 0;
  for (const KeySize& one : keys) {
    if (one.bytes <= kSplitBytes * static_cast<std::uint64_t>(servers))
      largest = std::max(largest, one.bytes);
  }
  return largest;
}

}  // namespace

TEST_CASE("placement: the parts of each key cover its value once") {
  for (const Placement placement : kAll) {
    for (const int servers : {1, 2, 3, 7, 64}) {
      std::vector<KeySize> keys = some_keys(50, 1);
      keys.push_back({"embedding", 1000 * kMiB + 12});
      keys.push_back({"empty", 0});
      std::map<std::string, std::uint64_t> reached;
      for (const KeyPart& part : place_keys(keys, servers, placement)) {
        CHECK(part.offset == reached[part.key]);
        CHECK(part.offset % kPartAlignment == 0);
        CHECK(part.server >= 0);
        CHECK(part.server < servers);
        reached[part.key] += part.bytes;
      }
      CHECK(reached.size() == keys.size());
      for (const KeySize& one : keys) CHECK(reached[one.key] == one.bytes);
    }
  }
}

TEST_CASE("placement: a value above 1 MiB x servers is split evenly, one of exactly that is not") {
  for (const Placement placement : kAll) {
    CHECK(place_keys({{"a", 4 * kMiB}}, 4, placement).size() == 1);
    const auto parts = place_keys({{"a", 4 * kMiB + 4}}, 4, placement);
    REQUIRE(parts.size() == 4);
    for (int server = 0; server < 4; ++server)
      CHECK(parts[static_cast<std::size_t>(server)].server == server);
    const auto [least, most] = std::minmax_element(
        parts.begin(), parts.end(), [](const KeyPart& a, const KeyPart& b) { return a.bytes < b.bytes; });
    CHECK(most->bytes - least->bytes <= kPartAlignment);
  }
  CHECK(place_keys({{"a", 1000 * kMiB}}, 1, Placement::greedy).size() == 1);
}

TEST_CASE("placement: sizes near the largest number neither overflow nor lose bytes") {
  const std::uint64_t bytes = UINT64_MAX;
  const auto parts = place_keys({{"a", bytes}}, 7, Placement::hash);
  REQUIRE(parts.size() == 7);
  std::uint64_t reached = 0;
  for (const KeyPart& part : parts) {
    CHECK(part.offset == reached);
    CHECK(part.bytes / (bytes / 7 - 2 * kPartAlignment) == 1);
    reached += part.bytes;
  }
  CHECK(reached == bytes);
}

TEST_CASE("placement: no row of a value with many rows is cut, and parts stay about as large") {
  for (const std::uint64_t row : {4, 12, 100, 256, 4096, 40'000}) {
    for (const int servers : {2, 3, 7}) {
      CAPTURE(row);
      const std::uint64_t rows = 70 * kMiB / row;
      const auto parts = place_keys({{"a", rows * row, row}}, servers, Placement::hash);
      REQUIRE(parts.size() == static_cast<std::size_t>(servers));
      for (const KeyPart& part : parts) {
        CHECK(part.offset % row == 0);
        CHECK(part.bytes % row == 0);
        CHECK(static_cast<double>(part.bytes) * servers < 1.13 * static_cast<double>(rows * row));
      }
    }
  }
  const auto few = place_keys({{"a", 12 * kMiB, 4 * kMiB}}, 2, Placement::hash);
  CHECK(few[1].offset == 6 * kMiB);
}

TEST_CASE("placement greedy: no server has more than the mean and one key") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    for (const int servers : {2, 3, 8}) {
      const std::vector<KeySize> keys = some_keys(60, seed);
      const auto load = loads(place_keys(keys, servers, Placement::greedy), servers);
      std::uint64_t total = 0;
      for (const std::uint64_t one : load) total += one;
      const std::uint64_t most = *std::max_element(load.begin(), load.end());
      const std::uint64_t bound =
          total / static_cast<std::uint64_t>(servers) + largest_whole(keys, servers) + 64 * 60;
      CHECK(most <= bound);
    }
  }
}

TEST_CASE("placement greedy: the largest key goes first, to the server with the fewest bytes") {
  const auto parts = place_keys({{"a", 300}, {"b", 500}, {"c", 400}, {"d", 100}}, 2, Placement::greedy);
  const std::vector<KeyPart> wanted = {
      {"a", 0, 300, 1}, {"b", 0, 500, 0}, {"c", 0, 400, 1}, {"d", 0, 100, 0}};
  CHECK(parts == wanted);
}

TEST_CASE("placement round_robin: in the order of the keys, split values left out") {
  const auto parts =
      place_keys({{"a", 1}, {"big", 8 * kMiB}, {"b", 1}, {"c", 1}, {"d", 1}}, 3, Placement::round_robin);
  std::map<std::string, int> server;
  for (const KeyPart& part : parts) {
    if (part.key != "big") server[part.key] = part.server;
  }
  CHECK(server == std::map<std::string, int>{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 0}});
}

TEST_CASE("placement: greedy and hash do not depend on the order of the keys; all give the same twice") {
  std::vector<KeySize> keys = some_keys(200, 3);
  const auto by_key = [](const std::vector<KeyPart>& parts) {
    std::map<std::pair<std::string, std::uint64_t>, int> result;
    for (const KeyPart& part : parts) result[{part.key, part.offset}] = part.server;
    return result;
  };
  for (const Placement placement : kAll)
    CHECK(place_keys(keys, 5, placement) == place_keys(keys, 5, placement));
  const auto greedy = by_key(place_keys(keys, 5, Placement::greedy));
  const auto hash = by_key(place_keys(keys, 5, Placement::hash));
  std::shuffle(keys.begin(), keys.end(), std::mt19937(4));
  CHECK(by_key(place_keys(keys, 5, Placement::greedy)) == greedy);
  CHECK(by_key(place_keys(keys, 5, Placement::hash)) == hash);
}

TEST_CASE("placement hash: a new server takes about 1/n of the keys, and no other key moves") {
  constexpr int kKeys = 20'000;
  for (const int servers : {1, 2, 4, 9, 31}) {
    int moved = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const int before = hash_server(key, servers), after = hash_server(key, servers + 1);
      if (before == after) continue;
      CHECK(after == servers);
      ++moved;
    }
    const double share = moved / static_cast<double>(kKeys), wanted = 1.0 / (servers + 1);
    CHECK(share < wanted * 1.15);
    CHECK(share > wanted * 0.85);
  }
}

TEST_CASE("placement hash: all servers get about as many keys") {
  constexpr int kKeys = 20'000, kServers = 16;
  std::vector<int> count(kServers, 0);
  for (int i = 0; i < kKeys; ++i)
    ++count[static_cast<std::size_t>(hash_server("w" + std::to_string(i), kServers))];
  const auto [least, most] = std::minmax_element(count.begin(), count.end());
  CHECK(*least > kKeys / kServers * 0.85);
  CHECK(*most < kKeys / kServers * 1.15);
}

TEST_CASE("placement hash: servers of keys that other versions have placed") {
  // as a program of another language has computed them from the definition
  std::vector<int> found;
  for (const char* key : {"", "a", "weight", "layer1.bias", "embedding"})
    found.push_back(hash_server(key, 16));
  CHECK(found == std::vector<int>{2, 5, 3, 6, 5});
}

TEST_CASE("placement: what cannot be placed is refused") {
  CHECK_THROWS_AS(place_keys({{"a", 1}}, 0, Placement::greedy), InvalidArgument);
  CHECK_THROWS_AS(place_keys({{"a", 1}, {"a", 2}}, 2, Placement::hash), InvalidArgument);
  CHECK(place_keys({}, 2, Placement::greedy).empty());
  CHECK(placement_from("round_robin") == Placement::round_robin);
  CHECK_THROWS_AS(placement_from("random"), InvalidArgument);
}
