// The processes that `kv_faults kills` kills, and the memory that they share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>

namespace heddle::test {

constexpr int kKillServers = 2, kKillWorkers = 2;
// Keys: a small and a larger one for each server, and one that travels in two pieces. No key is split over
// servers, since an interrupted push could count on one server and not on the other.
constexpr int kKillKeys = 2 * kKillServers + 1;

// A worker's pushes of one key. Times are those of the steady clock, in nanoseconds.
struct KeyBoard {
  std::atomic<std::int64_t> started{0}, acknowledged{0};
  // When the last acknowledged push began and when it was answered.
  std::atomic<std::int64_t> begun_at{0}, answered_at{0};
  std::atomic<std::int64_t> longest{0};  // the longest time from a push to its answer, in nanoseconds
};

struct WorkerBoard {
  std::atomic<bool> is_to_die{false};  // whether the worker is to kill itself by SIGKILL before its next push
  std::atomic<int> joined{0};          // number of processes of this rank that have pulled their first sums
  std::array<KeyBoard, kKillKeys> keys;
};

// The scheduler's state, which its process writes every few milliseconds; zeros before its first write.
struct SchedulerBoard {
  std::atomic<std::uint64_t> version{0};
  // Whether every server is connected and is the primary of its own shard, whose backup is complete.
  std::atomic<bool> complete{false};
  std::atomic<std::uint64_t> lost{0};
};

// What the test's processes share, in memory that all of them have mapped.
struct KillBoard {
  std::atomic<bool> over{false};  // whether the workers have to end
  std::array<WorkerBoard, kKillWorkers> workers;
  SchedulerBoard scheduler;
};

struct KillJob {
  std::string type, transport;
  std::string scheduler{}, state{};  // the scheduler's address and state file
  KillBoard* board = nullptr;
};

std::int64_t kill_key(int key);  // the store's key with the index `key`, 0 .. kKillKeys - 1
std::int64_t kill_time();        // time of the steady clock, in nanoseconds

// Forks a process that calls `run`, exits with 1 if that throws, and dies with the caller, which must have no
// other threads.
pid_t start_process(const std::string& name, const std::function<void()>& run);
// Forks the scheduler; sets job.scheduler to its address if that is empty.
pid_t start_scheduler(KillJob& job);
// Forks the server with this number. SIGTERM drains it.
pid_t start_server(const KillJob& job, int number);
pid_t start_worker(const KillJob& job, int rank);

}  // namespace heddle::test
