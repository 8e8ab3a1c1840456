#include "kvstore/kv_server.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <heddle/server.h>
#include <heddle/store_scheduler.h>

namespace heddle::bench {
namespace {

// A port that was free a moment ago, for redis-server, whose port must be given.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("there is no free port");
  close(socket);
  return ntohs(address.sin_port);
}

bool listens(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected = connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(socket);
  return connected;
}

// Replaces this process by redis-server, which is killed when its parent dies.
[[noreturn]] void become_redis(const std::string& port) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) dup2(null, fd);
  execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1", "--save", "",
         "--appendonly", "no", "--dir", "/tmp", nullptr);
  _exit(127);
}

}  // namespace

void say_address(pid_t process, const std::string& address) {
  std::string line;
  std::getline(std::cin, line);
  std::cout << process << ' ' << address << std::endl;
}

void wait_for_end_of_input() {
  for (std::string line; std::getline(std::cin, line);) continue;
}

int serve_until_input_ends(const std::string& address,
                           const std::function<void(const std::atomic<bool>& stop)>& work,
                           const std::function<void()>& wake) {
  std::atomic<bool> stop{false};
  std::thread thread([&] { work(stop); });
  say_address(getpid(), address);
  wait_for_end_of_input();
  stop.store(true);
  wake();
  thread.join();
  return 0;
}

int run_server(const ServerSetup& setup) {
  const bool scheduled = !setup.scheduler.empty();
  Server server({.listen = setup.host + ":0",
                 .transport = setup.transport == "zmq" ? "zmq" : "net",
                 .keys = setup.keys,
                 .number = scheduled ? -1 : 0,
                 .servers = scheduled ? 0 : 1,
                 .scheduler = setup.scheduler,
                 .replicas = scheduled ? setup.copies : 0});
  return serve_until_input_ends(
      server.address(), [&](const std::atomic<bool>&) { server.run(); }, [&] { server.stop(); });
}

int run_scheduler(const ServerSetup& setup) {
  StoreScheduler scheduler({.listen = setup.host + ":0",
                            .transport = setup.transport == "zmq" ? "zmq" : "net",
                            .keys = setup.keys,
                            .servers = kClusterServers,
                            .workers = kClusterWorkers});
  return serve_until_input_ends(
      scheduler.address(), [&](const std::atomic<bool>&) { scheduler.run(); }, [&] { scheduler.stop(); });
}

int run_redis_server() {
  const int port = free_port();
  const pid_t process = fork();
  if (process == 0) become_redis(std::to_string(port));
  for (int attempt = 0; attempt < 500 && !listens(port); ++attempt) {
    if (waitpid(process, nullptr, WNOHANG) == process)
      throw std::runtime_error("redis-server has ended; is it installed?");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  say_address(process, "127.0.0.1:" + std::to_string(port));
  wait_for_end_of_input();
  kill(process, SIGTERM);
  waitpid(process, nullptr, 0);
  return 0;
}

}  // namespace heddle::bench
