// Which server holds which part of which value. All workers of a job compute the same from the same keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::kv_detail {

enum class Placement {
  greedy,       // by size, largest first, to the server with the fewest bytes: the best balance
  round_robin,  // in the order of the keys
  hash,  // rendezvous hashing of names: a key's server depends on no other key, and few move with a new server
};

// "greedy", "round_robin" or "hash". Throws InvalidArgument for anything else.
Placement placement_from(std::string_view name);

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

// A value of more than so many bytes for each server is split evenly over all servers, whatever the placement.
constexpr std::uint64_t kSplitBytes = std::uint64_t{1} << 20;
// Parts begin at multiples of this: no element is cut. Where a value has many rows no row is cut either.
constexpr std::uint64_t kPartAlignment = 64;

// The parts in the order of the keys, those of one key by their offsets. Only round_robin depends on the order of the
// keys. Throws InvalidArgument for servers < 1 and for a key that is there twice.
std::vector<KeyPart> place_keys(const std::vector<KeySize>& keys, int servers, Placement placement);

// The server that the placement `hash` gives the key. Its values never change: jobs of different versions agree.
int hash_server(std::string_view key, int servers);

}  // namespace heddle::kv_detail
