// The processes that `kv_faults kills` kills, and the memory that they share with it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>

namespace heddle::test {

constexpr int kKillServers = 2, kKillWorkers = 2;
// One small key on each server, a larger one on each, and one on any of them that travels in two pieces. None is split over
// servers: what a worker pushes that dies may count on one and not on the other.
constexpr int kKillKeys = 2 * kKillServers + 1;

// What a worker says of its pushes of one key. Times are those of the steady clock, in nanoseconds.
struct KeyBoard {
  std::atomic<std::int64_t> started{0}, acknowledged{0};
  std::atomic<std::int64_t> begun_at{0}, answered_at{0};  // of the last one that was acknowledged
  std::atomic<std::int64_t> longest{0};                   // nanoseconds from a push to its answer
};

struct WorkerBoard {
  std::atomic<bool> is_to_die{false};  // by its own SIGKILL, before it pushes again
  std::atomic<int> joined{0};          // processes of this rank that have found their sums
  std::array<KeyBoard, kKillKeys> keys;
};

// What the scheduler's process writes every few milliseconds about itself; 0 until the first time.
struct SchedulerBoard {
  std::atomic<std::uint64_t> version{0};
  std::atomic<bool> complete{
      false};  // every server is there, is the primary of its shard, and has a backup that has all
  std::atomic<std::uint64_t> lost{0};
};

// In memory that all processes share.
struct KillBoard {
  std::atomic<bool> over{false};  // workers finish
  std::array<WorkerBoard, kKillWorkers> workers;
  SchedulerBoard scheduler;
};

struct KillJob {
  std::string type, transport;
  std::string scheduler{}, state{};  // its address and its file
  KillBoard* board = nullptr;
};

std::int64_t kill_key(int key);  // the key of the store
std::int64_t kill_time();        // of the steady clock, in nanoseconds

// Forks; the calling process has no other threads. `run` is the new process, which ends with this one and with code 1 if it
// throws.
pid_t start_process(const std::string& name, const std::function<void()>& run);
// Forks the scheduler. An empty job.scheduler is set to the address that it gets.
pid_t start_scheduler(KillJob& job);
pid_t start_server(const KillJob& job, int number);  // SIGTERM drains it
pid_t start_worker(const KillJob& job, int rank);

}  // namespace heddle::test
