// The scheduler of a key-value store's servers: processes find each other through it, and it assigns shards
// to servers. `heddle scheduler` is the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <heddle/etcd.h>
#include <heddle/server.h>

namespace heddle {

struct StoreSchedulerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: the system chooses
  std::string transport = "net";       // "net" or "zmq"
  std::string keys{};                  // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int servers = 1;                     // number of servers; 256 at most
  int workers = 0;                     // number of workers of each job; 0: what the job's workers report
  // File with the scheduler's decisions, for a restart. Empty: none.
  std::string state_file{};
  // Used instead of state_file: several schedulers with the same prefix elect a leader in etcd. The leader
  // keeps its decisions in etcd, and the other schedulers stand by.
  EtcdOptions etcd{};
  int max_connections = 10'000;
  // See ServerOptions::encrypt_loopback. Servers and workers need the same setting.
  bool encrypt_loopback = false;
  // A server is gone if it was silent for server_timeout, or disconnected for `grace`.
  std::chrono::milliseconds server_timeout{3000}, grace{100};
  // If not all servers have registered within this time, the registered processes are told which servers are
  // missing, and end.
  std::chrono::milliseconds start_timeout{120'000};
  // If the only server with a shard's state is gone for this time, another server begins the shard without
  // that state. 0: never.
  std::chrono::milliseconds lost_after{0};
  int protocol = 0;   // newest protocol version to speak, for tests of upgrades; 0: the newest there is
  bool once = false;  // true: run() returns when all workers have left and the servers were told so
  // Called on the scheduler's thread; empty: nothing is logged.
  std::function<void(const ServerEvent&)> log{};
};

// The servers that keep one shard.
struct ShardAssignment {
  std::uint64_t epoch = 0;
  int primary = -1, backup = -1;  // numbers of servers; -1: there is none, or the server is gone
  bool synced = false;            // whether the backup has all state of the shard
  int copies = 0;                 // number of complete copies of the shard on connected servers
  int learner = -1;  // number of a server that gets a copy while the backup keeps its own; -1: none
};

struct StoreSchedulerStats {
  double uptime = 0;   // seconds since the scheduler's start
  bool leads = true;   // false: another scheduler leads (etcd), and only that one knows shards and processes
  bool begun = false;  // whether all servers have registered and the first views are published
  std::uint64_t version = 0;  // grows with each change of the servers or of the shards that they keep
  int servers = 0, servers_here = 0, workers_here = 0;
  std::uint64_t failovers = 0, returned = 0, lost = 0;
  // refused: refused connections and registrations. unauthorized: registrations that comm.allowed does not
  // permit to the process's key.
  std::uint64_t refused = 0, unauthorized = 0;
  std::vector<ShardAssignment> shards{};
};

// The process that knows the servers and workers of key-value stores, and assigns the shards.
class StoreScheduler {
 public:
  // Reads the state file and listens. Throws InvalidArgument for invalid options, Error for a state file that
  // is unreadable, damaged or in use by another scheduler, and CommError if it cannot listen.
  explicit StoreScheduler(StoreSchedulerOptions options);
  ~StoreScheduler();
  StoreScheduler(const StoreScheduler&) = delete;
  StoreScheduler& operator=(const StoreScheduler&) = delete;

  const std::string& address() const;  // HOST:PORT, with the port that the system has chosen for port 0
  // Serves on the calling thread until stop(). Decisions are held back while the state file cannot be
  // written. Throws Error if the state in etcd is damaged, or was saved for another number of servers.
  void run();
  void stop() noexcept;               // any thread, and in signal handlers
  StoreSchedulerStats stats() const;  // any thread; blocks until the scheduler's thread has answered

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
