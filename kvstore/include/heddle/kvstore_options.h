// How a key-value store is to be created.
#pragma once

#include <string>

namespace heddle {

// Of a store of several processes; what is empty is read from the environment.
struct KVStoreOptions {
  // HEDDLE_COMM_COMPRESSION: how pushed f32 values go between processes. "none" (the default), "fp16", "bf16", "1bit",
  // "2bit:0.5", "topk:0.01": see compression.h. What is stored stays exact. To servers values of more than 64 KiB
  // go compressed, but no rows; what an encoding leaves out is added to the worker's next push of the key.
  std::string compression{};
  // HEDDLE_STORE_PULL_COMPRESSION: the same for what servers answer to pulls. A server keeps what each worker has, sends how
  // the value differs from it, and so makes up for what an encoding has left out in later pulls: weights are about what the
  // server has. Of "dist_" stores only.
  std::string pull_compression{};
  // HEDDLE_STORE_PLACEMENT: which server has which key, the same for all workers of a job. "hash" (the default), "round_robin",
  // "greedy", "explicit:KEY=SERVER,...", "explicit:@FILE" with a line KEY=SERVER for each key. Of "dist_" stores only. With
  // round_robin and greedy all workers initialise the same keys in the same order (docs/kvstore.md).
  std::string placement{};
};

}  // namespace heddle
