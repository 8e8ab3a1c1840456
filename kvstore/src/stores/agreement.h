// Checks that all ranks of an allreduce store make the same calls with the same settings. A collective call
// has a tag, which is compared at no cost; other settings are exchanged as texts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/optimizer.h>

namespace heddle {

// FNV-1a hash; never 0.
std::uint64_t digest_of(const std::string& text);

// Text such as "sgd, lr 0.1, momentum 0.9", with the fewest digits that give the same numbers.
std::string describe(const std::string& optimizer, const OptimizerParams& params);

// One push among those that are reduced together.
struct PushedKey {
  Key key;
  UpdateOptions options;
};
// Text such as "push of keys 7..0, lr 0.1, scale 0.5". Two lists of pushes have the same text only if they
// have the same keys in the same order with the same options.
std::string describe(const std::vector<PushedKey>& pushes);

// Blocks until all ranks call it. own_text() returns this rank's setting. If own_text() throws, this call
// rethrows it, and the other ranks throw InvalidArgument with its message. If the settings differ, all ranks
// throw InvalidArgument: "KVStore::create: the ranks' compression differs: none on ranks 0, 2; fp16 on rank
// 1".
void agree(Communicator& ranks, const std::string& call, const std::string& subject,
           const std::function<std::string()>& own_text);

}  // namespace heddle
