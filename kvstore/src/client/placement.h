// Placement of values on servers. All workers of a job compute the same placement from the same keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::kv_detail {

enum class Placement {
  greedy,       // each key to the server that has got the fewest bytes so far
  round_robin,  // keys to servers in turn
  hash,    // rendezvous hashing: a key's server depends on no other key, and few keys move with a new server
  by_list  // "explicit": each key to the server that a list names; keys that are not listed as with `hash`
};

struct PlacementRule {
  Placement kind = Placement::hash;
  std::map<std::string, int, std::less<>> servers{};  // by_list: servers by key, as Key::text() writes it

  PlacementRule(Placement placement = Placement::hash) : kind(placement) {}
  bool operator==(const PlacementRule&) const = default;
  // Text to compare between workers: "hash", "greedy", "round_robin", or "explicit 0123456789abcdef".
  std::string text() const;
};

// Parses "greedy", "round_robin", "hash", "explicit:KEY=SERVER,..." or "explicit:@FILE", a text file with a
// line KEY=SERVER for each key. Throws InvalidArgument for other texts, and Error if the file cannot be read.
PlacementRule placement_from(const std::string& text);

struct KeySize {
  std::string key;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // bytes / first dimension; 0: the array has no rows
};

// Bytes [offset, offset + bytes) of a key's value.
struct KeyPart {
  std::string key;
  std::uint64_t offset = 0, bytes = 0;
  int server = 0;
  bool operator==(const KeyPart&) const = default;
};

// A value with more bytes than this for each server is split over all servers, unless a list places it.
constexpr std::uint64_t kSplitBytes = std::uint64_t{1} << 20;
// Parts begin at multiples of this, or of a row if the value has many rows, so that no element is split.
constexpr std::uint64_t kPartAlignment = 64;

// Places keys on servers, one after the other.
class KeyPlacer {
 public:
  // Throws InvalidArgument for servers < 1, and for a list that names an unknown server.
  KeyPlacer(PlacementRule rule, int servers);

  // The parts of the key in the order of their offsets. With greedy and round_robin the servers depend on the
  // keys that were placed earlier.
  std::vector<KeyPart> place(const KeySize& key);
  bool is_listed() const { return rule_.kind == Placement::by_list; }
  bool is_ordered() const { return rule_.kind == Placement::greedy || rule_.kind == Placement::round_robin; }

 private:
  int server_for(const KeySize& key);

  PlacementRule rule_;
  int servers_;
  int next_ = 0;                      // round_robin: the next server
  std::vector<std::uint64_t> loads_;  // greedy: bytes placed on each server, without values that are split
};

// Places all keys at once: greedy begins with the largest key, which gives the best balance. Returns the
// parts in the order of the keys, and the parts of a key by offset. Only with round_robin the servers depend
// on the order of the keys. Throws InvalidArgument as KeyPlacer does, and for a key that comes twice.
std::vector<KeyPart> place_keys(const std::vector<KeySize>& keys, int servers, const PlacementRule& rule);

// The server of a key with the placement `hash`. No version of Heddle may change the result for a key, since
// processes of different versions have to agree.
int hash_server(std::string_view key, int servers);

}  // namespace heddle::kv_detail
