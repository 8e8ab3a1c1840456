// The scheduler of the servers of a key-value store: where processes find each other, and who decides which server keeps
// what. `heddle scheduler` is a program around it.
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
  std::string listen = "127.0.0.1:0";  // HOST:PORT; HOST may be an interface; port 0: any
  std::string transport = "net";       // "net" or "zmq"
  std::string keys{};                  // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  int servers = 1;                     // how many there are; 256 at most
  int workers = 0;                     // how many each job has; 0: as many as the workers say
  // Where it keeps what it has decided, so that it can be started anew. Empty: nowhere.
  std::string state_file{};
  // Or in etcd: several schedulers with the same prefix then agree on one that decides, and the others stand by.
  EtcdOptions etcd{};
  int max_connections = 10'000;
  bool encrypt_loopback = false;  // as of a server; servers and workers have to do the same
  // A server that was silent for so long is gone, and so is one whose connection has ended and not come back within `grace`.
  std::chrono::milliseconds server_timeout{3000}, grace{100};
  // If not all servers have come then, those that wait are told who is missing, and end.
  std::chrono::milliseconds start_timeout{120'000};
  // A shard whose state only a server has that is gone for so long begins anew on another one. 0: it waits for the server.
  std::chrono::milliseconds lost_after{0};
  int protocol = 0;   // the newest version of the protocol that it speaks, in tests of upgrades; 0: all
  bool once = false;  // run() returns when all workers have left, and the servers are told so
  std::function<void(const ServerEvent&)>
      log{};  // called on the scheduler's thread; empty: nothing is logged
};

// The servers that keep one part of the keys.
struct ShardPlace {
  std::uint64_t epoch = 0;
  int primary = -1, backup = -1;  // numbers of servers; -1: none, or one that is gone
  bool synced = false;            // the backup has all state
  int copies = 0;                 // complete ones, on servers that are connected
  int learner = -1;               // gets a copy while the backup still has its own
};

struct StoreSchedulerStats {
  double uptime = 0;          // seconds
  bool leads = true;          // false: with etcd, another scheduler decides, and what follows is empty
  bool begun = false;         // all servers have come, and the views have been given out
  std::uint64_t version = 0;  // of the views
  int servers = 0, servers_here = 0, workers_here = 0;
  std::uint64_t failovers = 0, handed_back = 0, lost = 0, refused = 0;
  std::vector<ShardPlace> shards{};
};

class StoreScheduler {
 public:
  // Reads the state file and listens. Throws InvalidArgument for options that cannot be, Error for a state file that cannot
  // be read, is damaged or belongs to a running scheduler, and CommError if the address cannot be listened at.
  explicit StoreScheduler(StoreSchedulerOptions options);
  ~StoreScheduler();
  StoreScheduler(const StoreScheduler&) = delete;
  StoreScheduler& operator=(const StoreScheduler&) = delete;

  const std::string& address() const;  // HOST:PORT, with the port that was chosen
  // Works on the calling thread until stop(). Throws Error if the state file cannot be written, and nobody has heard then of
  // what is not in it; or if the state in etcd is damaged, or of another number of servers.
  void run();
  void stop() noexcept;               // any thread, and in signal handlers
  StoreSchedulerStats stats() const;  // any thread; blocks until the scheduler's thread has answered

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
