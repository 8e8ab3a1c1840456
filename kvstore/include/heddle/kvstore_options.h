// Options of KVStore::create().
#pragma once

#include <string>

namespace heddle {

// Options of stores with several processes. An empty one is read from the variable that its comment names.
struct KVStoreOptions {
  // HEDDLE_COMM_COMPRESSION: the encoding of pushed f32 values between processes: "none" (the default),
  // "fp16", "bf16", "1bit", "2bit:0.5" or "topk:0.01", see compression.h. Stored values stay exact. Pushes to
  // servers are compressed if they are whole values of more than 64 KiB. What an encoding leaves out is added
  // to the worker's next push of the key.
  std::string compression{};
  // HEDDLE_STORE_PULL_COMPRESSION: the encoding of servers' answers to pulls, with the same choices. A server
  // keeps a copy of what each worker has and sends the difference, so later pulls make up for what an
  // encoding left out; pulled weights are close to the server's, not equal. Only "dist_" stores have it.
  std::string pull_compression{};
  // HEDDLE_STORE_PLACEMENT: which server keeps which key, the same for all workers of a job: "hash" (the
  // default), "round_robin", "greedy", "explicit:KEY=SERVER,..." or "explicit:@FILE" with a line KEY=SERVER
  // for each key. With round_robin and greedy all workers must initialise the same keys in the same order
  // (docs/kvstore.md). Only "dist_" stores have it.
  std::string placement{};
};

}  // namespace heddle
