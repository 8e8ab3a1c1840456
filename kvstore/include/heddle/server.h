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
  std::string name;  // name of the event in snake_case; docs/servers.md lists all names
  std::vector<std::pair<std::string, std::string>> fields;
};

struct ServerStats;

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: the system chooses
  // HOST:PORT that the scheduler gives to other processes; empty: the address that this server listens at.
  std::string advertise{};
  std::string transport = "net";  // "net" or "zmq"
  std::string keys{};             // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int number = 0, servers = 1;    // number of this server, from 0; count of servers
  // HOST:PORT of the scheduler (heddle/store_scheduler.h), which assigns shards to this server. Empty: there
  // is no scheduler, and this server alone keeps the shard of its number. With a scheduler, `number` -1 means
  // any free number, and `servers` 0 means the scheduler's count of servers.
  std::string scheduler{};
  EtcdOptions etcd{};  // used instead of `scheduler`: etcd names the leading scheduler
  // Copies of each shard, on different servers: 1, or 2 with a scheduler. 0: two copies if the scheduler has
  // several servers and none of them has the option 1; else one copy.
  int replicas = 0;
  // Limit in bytes on values, optimizer state, waiting pushes and copies being sent to workers; 0: none. A
  // request that would exceed the limit is refused. The overhead of keys, connections and running updates is
  // not counted.
  std::uint64_t memory_limit = 0;
  std::uint64_t job_memory_limit = 0;                        // memory limit of each job in bytes; 0: none
  std::map<std::string, std::uint64_t> job_memory_limits{};  // by job name; replaces job_memory_limit for it
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
  // Encrypts and checks keys on loopback, too, for connections through a tunnel. Workers must set this, too.
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
  double age = 0;           // seconds since the latest moment whose state is on the disk, or since the start
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
  double uptime = 0;  // seconds since the server's start
  bool draining = false;
  std::uint64_t jobs = 0, keys = 0;
  // value_bytes: stored values. state_bytes: optimizer state. waiting_bytes: pushes for later rounds, and
  // partly received requests.
  std::uint64_t value_bytes = 0, state_bytes = 0, waiting_bytes = 0;
  // Bytes that count for ServerOptions::memory_limit: values, state and waiting bytes, also of shards whose
  // backup this server is, and unsent replies.
  std::uint64_t memory_used = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0;
  // Processes that were refused since comm.allowed does not permit their key what they asked for.
  std::uint64_t unauthorized = 0;
  // The most pushes by which a worker was ahead of the slowest worker when its pull was answered.
  std::int64_t worst_staleness = 0;
  SnapshotStats snapshots;
  int number = 0, servers = 1;  // this server's number, count of servers; -1 and 0: not assigned yet
  std::vector<WorkerStats> workers;
  std::vector<ShardStats> shards;
  std::vector<RequestStats> requests;  // one entry for each kind of request, since the server's start
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
  // StoreError if the scheduler refuses this server before the scheduler has sent views, and Error if a shard
  // has snapshots and none is valid.
  void run();
  // Makes run() return once other servers keep this server's shards, which is soon if they have copies.
  // Without backups it waits until workers have left, and accepts no new job. Any thread; signal-safe.
  void drain() noexcept;
  // Makes run() return after a last snapshot. Any thread, and in signal handlers.
  void stop() noexcept;
  ServerStats stats() const;  // any thread; blocks until the server's thread has answered
  bool is_draining() const;   // any thread; blocks like stats(); for probes
  // Why other servers must not be replaced yet. Empty: this server accepts workers, and all copies of shards
  // that it knows of are complete. Any thread; blocks like stats().
  std::string reason_not_ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
