// The servers of kvstore_bench: separate processes that print their address, and end when their stdin closes.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <sys/types.h>

namespace heddle::bench {

struct ServerSetup {
  // What the process runs: "server" (Heddle's), "echo" (Heddle's transport alone), "tcp_echo" (a plain
  // socket), "redis_server", or "scheduler" (Heddle's).
  std::string role;
  std::string transport;  // "shm", "unix", "tls", "zmq"
  std::string host = "127.0.0.1";
  std::string keys{};       // directory with the encryption keys for the transport "tls"
  std::string scheduler{};  // HOST:PORT of the scheduler, for the role "server"; empty: no scheduler
  int copies = 1;           // replicas of each shard, if there is a scheduler
};
constexpr int kClusterServers = 2, kClusterWorkers = 2;

// Each of the run_ functions is the main function of a server process: it serves until stdin ends and returns
// the exit status. May throw.
int run_server(const ServerSetup& setup);
int run_scheduler(const ServerSetup& setup);
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
