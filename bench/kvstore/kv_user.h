// Who uses a key-value store in kvstore_bench: a process that pushes and pulls when told to, through one layer or peer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::bench {

// Where a user connects to, and how.
struct UserOptions {
  // "store", "lists", "calls", "together", "bare", "tcp", "redis"; "cluster": as store, a worker of several
  std::string layer;
  std::string transport;  // "shm", "unix", "tls", "zmq"; "" of tcp and redis
  std::string address;    // HOST:PORT; of "cluster" the scheduler's
  std::string keys;       // directory of the keys of "tls"
};

// Has some keys of one size. One thread.
class StoreUser {
 public:
  virtual ~StoreUser() = default;
  // New keys, with values that the store has; those made before are forgotten here. Each worker of a cluster has its own.
  virtual void make(std::size_t keys, std::size_t bytes) = 0;
  // What is pushed, and where what is pulled comes to. Not while a call below is under way.
  virtual std::span<std::byte> value(std::size_t key) = 0;
  virtual std::span<std::byte> result(std::size_t key) = 0;
  // Of all keys at once; return when all answers have come.
  virtual void push() = 0;
  virtual void pull() = 0;
  virtual void push_pull() = 0;  // a key's pull sees its push
};

// The values and the results of users that have no arrays of their own.
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

// All throw what they fail with. `store`: an application's KVStore, key by key; with `lists` pushed in one call, and pushed
// and pulled by 16 keys a call. `calls`: the client below it, without the engine; with
// `together` a pull does not wait for its push to be answered. `bare`: the transport alone. `tcp`: a blocking socket.
std::unique_ptr<StoreUser> make_store_user(const UserOptions& options, bool lists);
std::unique_ptr<StoreUser> make_calls_user(const UserOptions& options, bool together);
std::unique_ptr<StoreUser> make_bare_user(const UserOptions& options);
std::unique_ptr<StoreUser> make_tcp_user(const UserOptions& options);
// nullptr in builds without hiredis.
std::unique_ptr<StoreUser> make_redis_user(const UserOptions& options);
bool has_redis();

// Reads commands from stdin and answers each with a line, until stdin ends: "OP KEYS BYTES ROUNDS", where OP is make, push or
// push_pull, with "ok SECONDS WRONG", or "error WHY". SECONDS are those of all rounds; WRONG counts values that were not
// what they should have been.
int run_user(const UserOptions& options);
// The same for the layer "rows": "pull ROWS BYTES ROUNDS" and "pull_rows ..." pull a matrix with ROWS rows of BYTES, and 1 of
// 100 rows of it.
int run_rows_user(const UserOptions& options);

}  // namespace heddle::bench
