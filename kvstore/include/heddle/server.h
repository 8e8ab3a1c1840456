// A server of a key-value store keeps values, sums workers' pushes and applies updates. `heddle server` is
// one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/etcd.h>
#include <heddle/request_stats.h>

namespace heddle {

// An event for a structured log, such as "worker_dropped job=default worker=3 after=12500ms".
struct ServerEvent {
  enum class Level : std::uint8_t { debug, info, warning, error };
  Level level = Level::info;
  std::string name;  // snake_case, of a fixed set: see docs/servers.md
  std::vector<std::pair<std::string, std::string>> fields;
};

struct ServerStats;

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: any
  // HOST:PORT that the scheduler gives to other processes; empty: the address that this server listens at.
  std::string advertise{};
  std::string transport = "net";  // "net" or "zmq"
  std::string keys{};             // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int number = 0, servers = 1;    // this server's number, from 0, and the number of servers
  // HOST:PORT of the scheduler (heddle/store_scheduler.h), which assigns shards to this server. Empty: none,
  // and this server alone keeps the shard of its number. With a scheduler, number -1 is any free one, and
  // servers 0 the scheduler's count.
  std::string scheduler{};
  EtcdOptions etcd{};  // used instead of `scheduler`: etcd names the leading scheduler
  // Copies of each shard, on different servers: 1, or 2 with a scheduler. 0: 2 if the scheduler has several
  // servers and none of them says 1; else 1.
  int replicas = 0;
  // Limit in bytes on values, optimizer state, waiting pushes and copies being sent to workers; 0: none. A
  // request beyond it is refused. The overhead of keys, connections and running updates is not counted.
  std::uint64_t memory_limit = 0;
  std::uint64_t job_memory_limit = 0;                        // the limit in bytes of each job; 0: none
  std::map<std::string, std::uint64_t> job_memory_limits{};  // limits of single jobs by name, used instead
  int max_connections = 10'000;
  // A worker that was silent for this time is left out of rounds and clocks until it comes back.
  std::chrono::milliseconds worker_timeout{30'000};
  // Folder for periodic snapshots, from which a restarted server continues; empty: no snapshots. If the
  // process is killed, what it acknowledged after the last snapshot is lost.
  std::string snapshots{};
  std::chrono::milliseconds snapshot_interval{60'000};
  int snapshots_kept = 3;  // number of snapshots kept; older ones are removed
  // Keys whose state is collected in one step, for a snapshot or a copy, before messages are handled again.
  int keys_at_once = 128;
  // Encrypts and checks keys on loopback, too, for connections through a tunnel. Workers need the same.
  bool encrypt_loopback = false;
  int protocol = 0;  // newest protocol version to speak, for tests of upgrades; 0: the newest there is
  std::function<void(const ServerEvent&)> log{};  // called on the server's thread; empty: nothing is logged
  // Makes the text of ask_server_status() (heddle/administration.h), on the server's thread; empty: none.
  std::function<std::string(const ServerStats&)> status{};
};

struct WorkerStats {
  std::string job;
  int rank = 0;
  bool connected = false;
  double silent = 0;  // seconds since the worker's last message
  std::uint64_t pushes = 0, pulls = 0, bytes_received = 0, bytes_sent = 0;
  std::int64_t clock = 0;           // acknowledged pushes of the key that the worker has pushed most often
  std::uint64_t pulls_waiting = 0;  // pulls that wait for pushes of other workers
};

// Statistics of a server's snapshots; all 0 if it has no folder for them.
struct SnapshotStats {
  bool kept = false;  // whether the server has a folder for snapshots
  std::uint64_t written = 0, failed = 0;
  double age = 0;           // seconds since the moment whose whole state is on the disk, or since the start
  std::uint64_t bytes = 0;  // size of the last snapshot
  double seconds = 0;       // time that writing the last snapshot took
};

// Statistics of a shard, a part of the keys, on this server.
struct ShardStats {
  int shard = 0;
  std::int64_t epoch = 0;  // number of the scheduler's last decision about the shard's primary and backup
  bool primary = false, backup = false;
  bool synced = false;                  // whether a primary's backup has everything that workers were told
  std::uint64_t unconfirmed_bytes = 0;  // bytes that a primary's backup has not confirmed yet
};

struct ServerStats {
  double uptime = 0;  // seconds since the start
  bool draining = false;
  std::uint64_t jobs = 0, keys = 0;
  // waiting_bytes: pushes for later rounds, and partly received requests.
  std::uint64_t value_bytes = 0, state_bytes = 0, waiting_bytes = 0;
  // Bytes that count for the limit: those above, also of shards whose backup this server is, and unsent
  // replies.
  std::uint64_t memory_used = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0;
  std::uint64_t unauthorized = 0;    // processes that were refused for what their key lacks
  std::int64_t worst_staleness = 0;  // most pushes that a pull was ahead of the slowest worker
  SnapshotStats snapshots;
  int number = 0, servers = 1;  // this server's number and the number of servers; -1 of 0: not assigned yet
  std::vector<WorkerStats> workers;
  std::vector<ShardStats> shards;
  std::vector<RequestStats> requests;  // by kind, since the start
};

// A server process of a key-value store.
class Server {
 public:
  // Listens, and restores the newest valid snapshot. With a scheduler, run() restores it when this server
  // becomes the first primary of a shard. Throws InvalidArgument for invalid options, CommError if it cannot
  // listen at the address, and Error if there are snapshots and none is valid.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const;  // HOST:PORT, with the port that the system has chosen for port 0
  // Serves on the calling thread until stop(), or until drain() is done; then writes a last snapshot. Throws
  // StoreError if the scheduler refuses this server before it has sent views, and Error if a shard has
  // snapshots and none is valid.
  void run();
  // Makes run() return once other servers keep this server's shards, which is soon if they have copies.
  // Without backups it waits until workers have left, and accepts no new job. Any thread; signal-safe.
  void drain() noexcept;
  // Makes run() return after a last snapshot. Any thread, and in signal handlers.
  void stop() noexcept;
  ServerStats stats() const;  // any thread; blocks until the server's thread has answered
  bool is_draining() const;   // any thread; blocks like stats(); for probes
  // Any thread; blocks as stats(). Empty: this server accepts workers, and all copies of shards that it knows
  // of are complete, so the next server may be replaced. Else the reason.
  std::string reason_not_ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
