// A server of a key-value store: a process that keeps values, sums what workers push, and updates them. `heddle server`
// is a program around it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

// One thing that happened, for a log of lines such as "worker_left job=default worker=3 after=12.5s".
struct ServerEvent {
  enum class Level : std::uint8_t { debug, info, warning, error };
  Level level = Level::info;
  std::string name;  // snake_case, of a fixed set: see docs/kvstore.md
  std::vector<std::pair<std::string, std::string>> fields;
};

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: any
  std::string transport = "net";       // "net" or "zmq"
  std::string keys{};                  // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int number = 0, servers = 1;         // this server's number among those of the job
  // HOST:PORT of the scheduler (heddle/store_scheduler.h) that tells workers where servers are. Empty: none. With one,
  // number -1 is any that is free, and servers 0 as many as it says.
  std::string scheduler{};
  int replicas = 1;  // copies of each part of the keys, on different servers: 1, or 2 with a scheduler
  std::uint64_t memory_limit = 0;      // bytes of values, optimizer state and pushes that wait; 0: none
  std::uint64_t job_memory_limit = 0;  // the same for each job; 0: none
  int max_connections = 10'000;
  // A worker that has been gone for so long is left out of rounds and clocks until it comes back.
  std::chrono::milliseconds worker_timeout{30'000};
  std::function<void(const ServerEvent&)> log{};  // called on the server's thread; empty: nothing is logged
};

struct WorkerStats {
  std::string job;
  int rank = 0;
  bool connected = false;
  double silent = 0;  // seconds since its last message
  std::uint64_t pushes = 0, pulls = 0, bytes_received = 0, bytes_sent = 0;
  std::int64_t clock = 0;           // its most acknowledged pushes of one key
  std::uint64_t pulls_waiting = 0;  // for other workers
};

// A part of the keys that this server has.
struct ServerShardStats {
  int shard = 0;
  std::int64_t epoch = 0;  // the number of the scheduler's decision who its primary and its backup are
  bool primary = false, backup = false;
  bool synced = false;                  // of a primary: its backup has all that workers were told
  std::uint64_t unconfirmed_bytes = 0;  // of a primary: that its backup has not confirmed yet
};

struct ServerStats {
  double uptime = 0;  // seconds
  bool draining = false;
  std::uint64_t jobs = 0, keys = 0;
  std::uint64_t value_bytes = 0, state_bytes = 0, waiting_bytes = 0;  // of pushes that wait for their round
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0;
  std::int64_t worst_staleness = 0;  // the most clocks that a pull was ahead of the slowest worker
  int number = 0, servers = 1;  // as in the options, or as the scheduler has said; -1 of 0: it has not yet
  std::vector<WorkerStats> workers;
  std::vector<ServerShardStats> shards;
};

class Server {
 public:
  // Listens. Throws InvalidArgument for options that cannot be and CommError if the address cannot be listened at.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const;  // HOST:PORT, with the port that was chosen
  // Serves on the calling thread until stop(), or until drain() and all workers have left.
  void run();
  // Accepts no new worker; run() returns when those that are there have left. Any thread, and in signal handlers.
  void drain() noexcept;
  // Ends run() at once. Any thread, and in signal handlers.
  void stop() noexcept;
  ServerStats stats() const;  // any thread; blocks until the server's thread has answered

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
