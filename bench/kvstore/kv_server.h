// The servers of kvstore_bench: separate processes that print their address, and end when their stdin closes.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <sys/types.h>

namespace heddle::bench {

struct ServerSetup {
  // "server": Heddle's; "echo": the bare transport; "tcp_echo": a socket; "redis_server"; "scheduler"
  std::string role;
  std::string transport;  // "shm", "unix", "tls", "zmq"
  std::string host = "127.0.0.1";
  std::string keys{};       // key directory for "tls"
  std::string scheduler{};  // the scheduler of a "server", HOST:PORT; empty: none
  int copies = 1;           // replicas of each shard, if there is a scheduler
};
constexpr int kClusterServers = 2, kClusterWorkers = 2;

// These run in the server process. They return the process's exit status, and may throw.
int run_server(const ServerSetup& setup);
int run_scheduler(const ServerSetup& setup);  // the scheduler of a cluster
int run_echo(const ServerSetup& setup);
int run_tcp_echo();
int run_redis_server();

// Answers the first line of stdin with "PID ADDRESS"; runs `work` on another thread until stdin ends.
int serve_until_input_ends(const std::string& address,
                           const std::function<void(const std::atomic<bool>& stop)>& work,
                           const std::function<void()>& wake);
void say_address(pid_t process, const std::string& address);
void wait_for_end_of_input();

}  // namespace heddle::bench
