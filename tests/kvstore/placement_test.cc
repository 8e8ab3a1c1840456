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

#include "files.h"
#include "message_of.h"
#include "wire/job_settings.h"

using namespace heddle;
using heddle::test::message_of;
using namespace heddle::kv_detail;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr Placement kAll[] = {Placement::greedy, Placement::round_robin, Placement::hash};

// Keys with sizes like those of a network's layers: a few large and many small ones.
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
  // The expected servers were computed from the definition by a program in another language.
  std::vector<int> found;
  for (const char* key : {"", "a", "weight", "layer1.bias", "embedding"})
    found.push_back(hash_server(key, 16));
  CHECK(found == std::vector<int>{2, 5, 3, 6, 5});
}

TEST_CASE("placement: what cannot be placed is refused") {
  CHECK_THROWS_AS(place_keys({{"a", 1}}, 0, Placement::greedy), InvalidArgument);
  CHECK_THROWS_AS(place_keys({{"a", 1}, {"a", 2}}, 2, Placement::hash), InvalidArgument);
  CHECK(place_keys({}, 2, Placement::greedy).empty());
  CHECK(placement_from("round_robin").kind == Placement::round_robin);
  CHECK_THROWS_AS(placement_from("random"), InvalidArgument);
}

TEST_CASE("placement: one key after the other, greedy takes the server with the fewest bytes so far") {
  KeyPlacer greedy(Placement::greedy, 3);
  std::vector<int> servers;
  for (const KeySize& key :
       std::vector<KeySize>{{"a", 10}, {"b", 30}, {"big", 8 * kMiB}, {"c", 5}, {"d", 10}, {"e", 1}}) {
    const auto parts = greedy.place(key);
    if (key.key == "big") {
      CHECK(parts.size() == 3);
    } else {
      REQUIRE(parts.size() == 1);
      servers.push_back(parts[0].server);
    }
  }
  CHECK(servers == std::vector<int>{0, 1, 2, 2, 0});
  CHECK(greedy.is_ordered());
  CHECK_FALSE(KeyPlacer(Placement::hash, 3).is_ordered());
}

TEST_CASE("placement: a list says where keys are, whatever their size; others go by hash") {
  const PlacementRule rule = placement_from("explicit:big=2,a=b=1,7=0");
  CHECK(rule.servers == std::map<std::string, int, std::less<>>{{"7", 0}, {"a=b", 1}, {"big", 2}});
  const auto parts =
      place_keys({{"big", 80 * kMiB}, {"a=b", 4}, {"7", 4}, {"other", 4}, {"large", 80 * kMiB}}, 3, rule);
  REQUIRE(parts.size() == 7);
  CHECK(parts[0] == KeyPart{"big", 0, 80 * kMiB, 2});
  CHECK(parts[1].server == 1);
  CHECK(parts[2].server == 0);
  CHECK(parts[3].server == hash_server("other", 3));
  CHECK(parts[6].key == "large");
  CHECK_THROWS_WITH_AS(KeyPlacer(rule, 2), "placement: key 'big' is to be on server 2; the last of 2 is 1",
                       InvalidArgument);
}

TEST_CASE("placement: what is no list is refused") {
  const std::pair<const char*, const char*> bad[] = {
      {"explicit:", "names no key"},
      {"explicit:a", "'a' is not KEY=SERVER"},
      {"explicit:=1", "'=1' is not KEY=SERVER"},
      {"explicit:a=-1", "'a=-1' is not KEY=SERVER"},
      {"explicit:a=1x", "'a=1x' is not KEY=SERVER"},
      {"explicit:a=99999999999", "is not KEY=SERVER"},
      {"explicit:7=1,7=2", "the key '7' is there twice"},
      {"explicit:@/nowhere/at/all", "/nowhere/at/all cannot be read"},
      {"random", "want hash, greedy, round_robin, explicit:"}};
  for (const auto& [text, why] : bad) {
    CAPTURE(text);
    const std::string message = message_of([&, text = text] { placement_from(text); });
    CAPTURE(message);
    CHECK(message.find(why) != std::string::npos);
  }
}

TEST_CASE("placement: a file has a line for each key, and workers compare digests") {
  const heddle::test::TemporaryFile file;
  heddle::test::write_file(file.path, "b=1\r\n\na,b=0\n");
  const PlacementRule rule = placement_from("explicit:@" + file.path);
  CHECK(rule.servers == std::map<std::string, int, std::less<>>{{"a,b", 0}, {"b", 1}});
  CHECK(rule.text() == placement_from("explicit:@" + file.path).text());
  CHECK(rule.text() != placement_from("explicit:b=1").text());
  for (const auto& text :
       {std::string("hash"), std::string("greedy"), std::string("round_robin"), rule.text()})
    CHECK(parse_job_settings(job_settings_text("ssp:3", text)).placement == text);
  CHECK(job_settings_text("sync", "hash") == "sync");
  CHECK(with_placement("sync, placement greedy", "hash") == "sync");
  CHECK(parse_job_settings("ssp:3, placement greedy").consistency.slack == 3);
  for (const char* const bad :
       {"sync, placement ", "sync, placement hash", "sync, placement explicit 12", "greedy",
        "sync, placement explicit 0123456789abcdeF", "sync, placement greedy "}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_job_settings(bad), InvalidArgument);
  }
}
