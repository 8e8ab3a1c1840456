// The servers of kvstore_bench: processes of their own that say where they listen, and end with their stdin.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <sys/types.h>

namespace heddle::bench {

struct ServerSetup {
  std::string
      role;  // "server": Heddle's; "echo": the bare transport; "tcp_echo": a socket; "redis_server"; "scheduler"
  std::string transport;  // "shm", "unix", "tls", "zmq"
  std::string host = "127.0.0.1";
  std::string keys{};       // directory of the keys of "tls"
  std::string scheduler{};  // of a "server": HOST:PORT; empty: none
  int copies = 1;           // with it
};
constexpr int kClusterServers = 2, kClusterWorkers = 2;

// What the process does; they return its exit status and throw.
int run_server(const ServerSetup& setup);
int run_scheduler(const ServerSetup& setup);  // of a cluster
int run_echo(const ServerSetup& setup);
int run_tcp_echo();
int run_redis_server();

// Answers the first line of stdin with "PID ADDRESS"; `work` runs on a thread of its own until stdin ends.
int serve_until_input_ends(const std::string& address,
                           const std::function<void(const std::atomic<bool>& stop)>& work,
                           const std::function<void()>& wake);
void say_address(pid_t process, const std::string& address);
void wait_for_end_of_input();

}  // namespace heddle::bench
