// Jobs with values on servers: workers as threads, servers in this process, real connections.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/engine.h>
#include <heddle/server.h>

#include "client/dist_store.h"

namespace heddle::test {

// ThreadSanitizer did not compile ZeroMQ and does not see how it passes bytes between threads.
#if defined(__SANITIZE_THREAD__)
inline const std::vector<const char*> kTransports = {"net"};
#else
inline const std::vector<const char*> kTransports = {"net", "zmq"};
#endif

// A server that serves on its own thread from construction to destruction.
class Running {
 public:
  explicit Running(ServerOptions options) : server(std::move(options)), thread_([this] { server.run(); }) {}
  ~Running() {
    server.stop();
    thread_.join();
  }
  Server server;

 private:
  std::thread thread_;
};

struct Job {
  int workers = 2, servers = 1;
  std::string type = "dist_sync";
  std::string transport = "net";
  std::chrono::milliseconds timeout{20'000};
  Scheduler scheduler = Scheduler::threaded;
  std::uint64_t memory_limit = 0;
  std::string compression = "none", pull_compression = "none";
  std::string placement = "hash";
  // Newest protocol version that workers and servers speak; 0: no limit.
  int worker_protocol = 0, server_protocol = 0;
};

using Servers = std::vector<std::unique_ptr<Running>>;

// Makes a worker's store on the current engine.
inline std::unique_ptr<KVStore> make_store(const Job& job, const Servers& servers, int rank = 0) {
  kv_detail::ClientOptions options;
  options.consistency = job.type.substr(5);
  options.rank = rank;
  options.workers = job.workers;
  options.timeout = job.timeout;
  for (const auto& one : servers) options.servers.push_back(one->server.address());
  options.transport.kind = job.transport;
  options.placement = kv_detail::placement_from(job.placement);
  options.versions = kv_detail::versions_up_to(job.worker_protocol);
  const DistStore::Codecs codecs{make_codec(job.compression), make_codec(job.pull_compression)};
  return std::make_unique<DistStore>(job.type, options, codecs);
}

// Runs `body` with the store of worker `rank`, on the current engine.
inline void run_worker_here(const Job& job, const Servers& servers, const std::function<void(KVStore&)>& body,
                            int rank = 0) {
  const std::unique_ptr<KVStore> store = make_store(job, servers, rank);
  body(*store);
}

// Runs `body` once for each worker of the job, each on a thread with its own engine.
inline void run_workers(const Job& job, const Servers& servers, const std::function<void(KVStore&)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(job.workers));
  for (int rank = 0; rank < job.workers; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Engine engine({.scheduler = job.scheduler, .workers = 2});
        const EngineScope scope(engine);
        run_worker_here(job, servers, body, rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

inline Servers start_servers(const Job& job) {
  Servers servers;
  for (int number = 0; number < job.servers; ++number)
    servers.push_back(std::make_unique<Running>(ServerOptions{.transport = job.transport,
                                                              .number = number,
                                                              .servers = job.servers,
                                                              .memory_limit = job.memory_limit,
                                                              .protocol = job.server_protocol}));
  return servers;
}

inline void run_job(const Job& job, const std::function<void(KVStore&)>& body) {
  run_workers(job, start_servers(job), body);
}

}  // namespace heddle::test
