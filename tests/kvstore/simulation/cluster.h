// A scheduler, servers and workers on a simulated network, with faults.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/engine.h>

#include "simulation/network.h"
#include "simulation/plan.h"
#include "simulation/scheduler_process.h"
#include "simulation/server_process.h"
#include "simulation/worker_process.h"

namespace heddle::kv_detail::sim {

class Cluster {
 public:
  struct Counts {
    int killed_schedulers = 0, killed_servers = 0, killed_workers = 0;
    int pauses = 0, cut_off = 0, separated = 0, cuts = 0;
    SchedulerProcess::Counts decisions{};
    int kills() const { return killed_schedulers + killed_servers + killed_workers; }
  };

  Cluster(const Plan& plan, std::uint64_t seed);
  // Runs until all workers have pushed and pulled everything, or a worker finds that a shard is lost.
  void run();
  bool is_lost() const;

  // The functions that follow are for tests that choose their own faults.
  void step();  // handles the next event
  void pass(Clock::duration time);
  void kill_server(std::size_t slot, Clock::duration downtime);
  Network& network() { return network_; }
  const SchedulerCore& scheduler() const { return scheduler_->core(); }
  const ServerProcess& server(std::size_t slot) const { return *servers_[slot].process; }
  const std::string& address_of(std::size_t slot) const { return servers_[slot].address; }
  const WorkerProcess& worker(std::size_t rank) const { return *workers_[rank]; }
  const SchedulerState& decided() const { return checks_.state(); }
  std::string state() const;  // a description of all processes, for the message of a timeout
  Clock::time_point now() const { return network_.now; }
  std::uint64_t messages() const { return messages_; }

  Counts counts;

 private:
  struct Server {
    std::string address{};
    std::unique_ptr<ServerProcess> process{};  // null if the server is dead
  };
  void start_scheduler();
  void start_server(std::size_t slot);
  void start_worker(std::uint32_t rank);
  void kill_scheduler(Clock::duration downtime);
  void kill_worker(std::uint32_t rank, Clock::duration downtime);
  void fault();
  void befall(const std::string& address, Clock::duration time);
  void cut_off(const std::string& address, const std::string& kinds, Clock::duration time);
  void cut_off_some();
  void kill(const std::string& address);
  std::vector<std::string> addresses() const;  // addresses of the living processes
  bool is_well() const;
  bool all_synced() const;
  void check_answer(const std::string& from, const std::string& to, Peer number, const Message& message);
  void check_staleness() const;
  void trace(const std::string& text) const;
  std::uint64_t below(std::uint64_t limit) { return network_.below(limit); }
  Clock::duration some_time();
  int some_protocol() { return plan_.mixed_versions ? kProtocol - static_cast<int>(below(2)) : 0; }
  static std::string rank_address(std::uint32_t rank);

  const Plan plan_;
  Engine engine_{{.scheduler = Scheduler::naive}};
  EngineScope scope_{engine_};
  Network network_;
  Ledger ledger_;
  ViewChecks checks_;
  StoreSchedulerOptions scheduler_options_;
  SchedulerProcess::File file_;
  std::unique_ptr<SchedulerProcess> scheduler_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::vector<std::unique_ptr<Process>> dead_;
  std::uint64_t messages_ = 0, last_version_ = 0;
  int started_ = 0;                                // number of server processes started so far
  Clock::time_point next_fault_{}, fault_ends_{};  // fault_ends_: when the latest fault ends
};

}  // namespace heddle::kv_detail::sim
