// The users of a key-value store in kvstore_bench: processes that push and pull on command, through one layer
// or peer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::bench {

// What a user connects to.
struct UserOptions {
  // "store", "lists", "calls", "together", "bare", "tcp" or "redis": see the make_ functions below.
  // "cluster": like "store", but one of several workers.
  std::string layer;
  std::string transport;  // "shm", "unix", "tls" or "zmq"; empty for the layers "tcp" and "redis"
  std::string address;    // HOST:PORT of the server; of the scheduler for the layer "cluster"
  std::string keys;       // directory with the encryption keys for the transport "tls"
};

// Pushes and pulls keys of one size. Used by one thread.
class StoreUser {
 public:
  virtual ~StoreUser() = default;
  // Replaces all keys by new ones, and initialises their values in the store. Workers of a cluster have
  // separate keys.
  virtual void make(std::size_t keys, std::size_t bytes) = 0;
  // The buffers that push() sends from and pull() receives into. Do not call during push, pull or push_pull.
  virtual std::span<std::byte> value(std::size_t key) = 0;
  virtual std::span<std::byte> result(std::size_t key) = 0;
  // Push or pull all keys concurrently; return when all answers have arrived.
  virtual void push() = 0;
  virtual void pull() = 0;
  virtual void push_pull() = 0;  // pushes and pulls each key; the pull returns the pushed value
};

// The memory of the pushed values and the pulled results, for users that do not keep them in NDArrays.
class UserMemory {
 public:
  void resize(std::size_t keys, std::size_t bytes);
  std::size_t keys() const { return keys_; }
  std::size_t bytes() const { return bytes_; }
  std::span<std::byte> value(std::size_t key) { return std::span(values_).subspan(key * bytes_, bytes_); }
  std::span<std::byte> result(std::size_t key) { return std::span(results_).subspan(key * bytes_, bytes_); }

 private:
  std::size_t keys_ = 0, bytes_ = 0;
  std::vector<std::byte> values_, results_;
};

// Users by layer; all throw on errors. "store": calls a KVStore key by key. "lists": pushes all keys in one
// call, and calls push_pull with 16 keys. "calls": uses the client below the KVStore, without the engine.
// "together": like "calls", but a pull is sent without waiting for the answer to the push. "bare": uses the
// transport alone. "tcp": uses a blocking socket.
std::unique_ptr<StoreUser> make_store_user(const UserOptions& options, bool lists);
std::unique_ptr<StoreUser> make_calls_user(const UserOptions& options, bool together);
std::unique_ptr<StoreUser> make_bare_user(const UserOptions& options);
std::unique_ptr<StoreUser> make_tcp_user(const UserOptions& options);
// A user of Redis; nullptr in builds without hiredis.
std::unique_ptr<StoreUser> make_redis_user(const UserOptions& options);
bool has_redis();

// Reads commands from stdin and answers each with a line, until stdin ends: "OP KEYS BYTES ROUNDS", where OP
// is make, push or push_pull. Answers: "ok SECONDS WRONG", where SECONDS are for all rounds and WRONG counts
// wrong values, or "error WHY".
int run_user(const UserOptions& options);
// Answers commands as run_user() does, for the layer "rows": "pull ROWS BYTES ROUNDS" pulls a whole matrix of
// ROWS rows of BYTES bytes; "pull_rows ROWS BYTES ROUNDS" pulls ROWS / 100 rows of it, chosen at random.
int run_rows_user(const UserOptions& options);

}  // namespace heddle::bench
