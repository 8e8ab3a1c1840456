// A server of a key-value store: a process that keeps values, sums what workers push, and updates them. `heddle server`
// is a program around it.
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

namespace heddle {

// One thing that happened, for a log of lines such as "worker_dropped job=default worker=3 after=12500ms".
struct ServerEvent {
  enum class Level : std::uint8_t { debug, info, warning, error };
  Level level = Level::info;
  std::string name;  // snake_case, of a fixed set: see docs/servers.md
  std::vector<std::pair<std::string, std::string>> fields;
};

struct ServerStats;

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: any
  // HOST:PORT where others reach this server, which the scheduler tells them; empty: where it listens.
  std::string advertise{};
  std::string transport = "net";  // "net" or "zmq"
  std::string keys{};             // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int number = 0, servers = 1;    // this server's number among those of the job
  // HOST:PORT of the scheduler (heddle/store_scheduler.h), which says which shards this server is the primary and the backup
  // of; empty: there is none, and this server alone has the shard of its number. With one, number -1 is any that is free,
  // and servers 0 as many as it says.
  std::string scheduler{};
  EtcdOptions etcd{};  // or where to look for the scheduler that leads now
  // Copies of each part of the keys, on different servers: 1, or 2 with a scheduler. 0: with a scheduler of two servers or
  // more 2, unless other servers say 1; else 1.
  int replicas = 0;
  // Bytes of values, optimizer state, pushes that wait, and copies on their way to workers; 0: no limit. What would exceed
  // it is refused. Overhead of keys, connections and updates under way come on top.
  std::uint64_t memory_limit = 0;
  std::uint64_t job_memory_limit = 0;                        // the same for each job; 0: none
  std::map<std::string, std::uint64_t> job_memory_limits{};  // for jobs of these names instead; 0: none
  int max_connections = 10'000;
  // A worker that has been gone for so long is left out of rounds and clocks until it comes back.
  std::chrono::milliseconds worker_timeout{30'000};
  // Folder to which the state is written every now and then, and from which the server goes on when it is started again;
  // empty: none. What was acknowledged after the last snapshot is lost if the process is killed.
  std::string snapshots{};
  std::chrono::milliseconds snapshot_interval{60'000};
  int snapshots_kept = 3;  // older ones are removed
  // Keys whose state is collected, for a snapshot or for a new copy, between two messages of workers.
  int keys_at_once = 128;
  // On loopback, too, connections are encrypted and keys count: for what reaches it through a tunnel. Workers have to do the same.
  bool encrypt_loopback = false;
  int protocol = 0;  // the newest version of the protocol that it speaks, in tests of upgrades; 0: all
  std::function<void(const ServerEvent&)> log{};  // called on the server's thread; empty: nothing is logged
  // The text that an administrator who asks for the server's status gets (heddle/administration.h). Called on the server's
  // thread; empty: none.
  std::function<std::string(const ServerStats&)> status{};
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

// The snapshots of a server, if it has a folder for them.
struct SnapshotStats {
  bool kept = false;  // there is a folder
  std::uint64_t written = 0, failed = 0;
  double age = 0;           // seconds since all of the state was on the disk, or since the start
  std::uint64_t bytes = 0;  // of the last one
  double seconds = 0;       // that it took to write it
};

// A part of the keys that this server has.
struct ShardStats {
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
  // Bytes that count for the limit: all these, also of parts of which this server is the backup, and replies on their way.
  std::uint64_t memory_used = 0;
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0;
  std::int64_t worst_staleness = 0;  // the most clocks that a pull was ahead of the slowest worker
  SnapshotStats snapshots;
  int number = 0, servers = 1;  // as in the options, or as the scheduler has said; -1 of 0: it has not yet
  std::vector<WorkerStats> workers;
  std::vector<ShardStats> shards;
};

class Server {
 public:
  // Listens, and restores the newest good snapshot. With a scheduler run() restores it, when this server begins a part. Throws
  // InvalidArgument for options that cannot be, CommError if the address cannot be listened at, and Error if there are
  // snapshots and none of them is good.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const;  // HOST:PORT, with the port that was chosen
  // Serves on the calling thread until stop(), or until drain() is done; then writes a last snapshot. With a scheduler, throws
  // StoreError if it refuses this server before there were views, and Error if no snapshot of a part is good.
  void run();
  // run() returns when other servers have what this one has, which takes a moment if they have copies; or else when the
  // workers have left, and no new job is accepted until then. Any thread, and in signal handlers.
  void drain() noexcept;
  // Ends run() at once, but for a last snapshot. Any thread, and in signal handlers.
  void stop() noexcept;
  ServerStats stats() const;  // any thread; blocks until the server's thread has answered
  bool is_draining() const;   // the same, for probes
  // The same. Empty: it takes workers, and with copies all those that it knows of are complete, so that the next server may be
  // exchanged. Else why not.
  std::string reason_not_ready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
