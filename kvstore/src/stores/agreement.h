// What the ranks of an allreduce store have to agree on: as the tag of a call where it costs nothing, or all at once by an
// exchange of texts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/optimizer.h>

namespace heddle {

// FNV-1a, and never 0.
std::uint64_t digest_of(const std::string& text);

// "sgd, lr 0.1, momentum 0.9": numbers have as many digits as tell them from all others.
std::string describe(const std::string& optimizer, const OptimizerParams& params);

// One push among those that are reduced together.
struct PushedKey {
  Key key;
  UpdateOptions options;
};
// "push of keys 7..0, lr 0.1, scale 0.5". Equal texts: the same keys in the same order, with the same options.
std::string describe(const std::vector<PushedKey>& pushes);

// Blocks until all ranks have come. mine() returns what this rank has. If it throws, so does this; the other ranks get
// InvalidArgument that says why. If not all have the same, all ranks throw InvalidArgument that says which ranks have what:
// "KVStore::create: the ranks' compression differs: none on ranks 0, 2; fp16 on rank 1".
void agree(Communicator& ranks, const std::string& call, const std::string& subject,
           const std::function<std::string()>& mine);

}  // namespace heddle
