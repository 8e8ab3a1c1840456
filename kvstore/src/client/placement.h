// Which server holds which part of which value. All workers of a job compute the same from the same keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::kv_detail {

enum class Placement {
  greedy,       // each key to the server with the fewest bytes so far
  round_robin,  // in the order of the keys
  hash,  // rendezvous hashing of names: a key's server depends on no other key, and few move with a new server
  by_list  // "explicit": where a list says; keys that are not in it as with `hash`
};

struct PlacementRule {
  Placement kind = Placement::hash;
  std::map<std::string, int, std::less<>> servers{};  // by_list: of the keys, as Key::text() writes them

  PlacementRule(Placement placement = Placement::hash) : kind(placement) {}
  bool operator==(const PlacementRule&) const = default;
  // What workers have to agree on: "hash", "greedy", "round_robin", "explicit 0123456789abcdef" with a digest of the list.
  std::string text() const;
};

// "greedy", "round_robin", "hash", "explicit:KEY=SERVER,..." or "explicit:@FILE", a text file with a line KEY=SERVER for each
// key. Throws InvalidArgument for anything else, and Error for a file that cannot be read.
PlacementRule placement_from(const std::string& text);

struct KeySize {
  std::string key;
  std::uint64_t bytes = 0;
  std::uint64_t row_bytes = 0;  // of an array with axes: bytes / its first dimension. 0: it has no rows
};

// Bytes [offset, offset + bytes) of a key's value.
struct KeyPart {
  std::string key;
  std::uint64_t offset = 0, bytes = 0;
  int server = 0;
  bool operator==(const KeyPart&) const = default;
};

// A value of more than so many bytes for each server is split evenly over all servers, unless a list says where it is.
constexpr std::uint64_t kSplitBytes = std::uint64_t{1} << 20;
// Parts begin at multiples of this: no element is cut. Where a value has many rows no row is cut either.
constexpr std::uint64_t kPartAlignment = 64;

// Places one key after the other.
class Placer {
 public:
  // Throws InvalidArgument for servers < 1, and for a list that names a server which there is not.
  Placer(PlacementRule rule, int servers);

  // The parts of the next key by their offsets. With greedy and round_robin they depend on the keys before.
  std::vector<KeyPart> place(const KeySize& key);
  bool is_listed() const { return rule_.kind == Placement::by_list; }
  bool is_ordered() const { return rule_.kind == Placement::greedy || rule_.kind == Placement::round_robin; }

 private:
  int server_for(const KeySize& key);

  PlacementRule rule_;
  int servers_;
  int next_ = 0;                      // round_robin
  std::vector<std::uint64_t> loads_;  // greedy: bytes by server; split values load all alike
};

// All at once: greedy begins with the largest one, which gives the best balance. The parts in the order of the keys, those
// of one key by their offsets. Only round_robin depends on the order of the keys. Throws InvalidArgument as Placer does,
// and for a key that is there twice.
std::vector<KeyPart> place_keys(const std::vector<KeySize>& keys, int servers, const PlacementRule& rule);

// The server that the placement `hash` gives the key. Its values never change: jobs of different versions agree.
int hash_server(std::string_view key, int servers);

}  // namespace heddle::kv_detail
