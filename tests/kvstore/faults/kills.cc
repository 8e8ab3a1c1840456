// SIGKILL to servers, workers and the scheduler, one at a time, while workers push: no acknowledged push is
// lost, and none counts twice.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "arguments.h"
#include "faults/kill_processes.h"
#include "faults/programs.h"
#include "faults/server_process.h"

namespace heddle::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;      // how long the test waits for an event; far longer than a repair takes
constexpr double kMostRepair = 1.0;  // limit of the 99th percentile of repair times, in seconds

class SharedBoard {
 public:
  SharedBoard() {
    void* const memory =
        ::mmap(nullptr, sizeof(KillBoard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("there is no shared memory to be had");
    board_ = new (memory) KillBoard;
  }
  ~SharedBoard() { ::munmap(board_, sizeof(KillBoard)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  KillBoard* get() const { return board_; }

 private:
  KillBoard* board_;
};

struct Counts {
  int servers = 0, drained = 0, workers = 0, schedulers = 0;
  // Number of killed processes; drained servers are not killed.
  int all() const { return servers + workers + schedulers; }
};

class Kills {
 public:
  Kills(const FaultSettings& settings, const std::string& type) : random_(settings.seed) {
    job_ = {.type = type,
            .transport = settings.transport,
            .state = directory_.path + "/state",
            .board = board_.get()};
    scheduler_ = start_scheduler(job_);
    for (int number = 0; number < kKillServers; ++number) servers_.push_back(start_server(job_, number));
    for (int rank = 0; rank < kKillWorkers; ++rank) workers_.push_back(start_worker(job_, rank));
    await("the workers' sums", [this] { return joined(0) >= 1 && joined(1) >= 1; });
    await_progress(kill_time());
  }
  ~Kills() {
    for (const pid_t one : workers_) end(one);
    for (const pid_t one : servers_) end(one);
    end(scheduler_);
  }
  Kills(const Kills&) = delete;
  Kills& operator=(const Kills&) = delete;

  // Waits until all copies are complete, kills a process, restarts it, and waits until all workers make
  // progress.
  void kill_one() {
    await("copies", [this] { return board().scheduler.complete.load(); });
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 50'000));
    const auto chosen = random_() % 20;
    if (chosen < 12) return kill_server(static_cast<int>(random_() % kKillServers));
    if (random_() % 8 == 0) drain_server(static_cast<int>(random_() % kKillServers));
    if (chosen < 17) return kill_worker(static_cast<int>(random_() % kKillWorkers));
    kill_scheduler();
  }

  // Ends the workers, each of which checks its sums; returns the number of all acknowledged pushes.
  std::int64_t finish() {
    board().over = true;
    for (pid_t& worker : workers_) {
      await("the workers' end", [&] { return has_ended(worker); });
      worker = -1;
    }
    if (board().scheduler.lost > 0) throw std::runtime_error("a part of the keys was lost");
    std::int64_t pushes = 0;
    for (const WorkerBoard& worker : board().workers) {
      for (const KeyBoard& key : worker.keys) pushes += key.acknowledged;
    }
    return pushes;
  }

  const Counts& counts() const { return counts_; }
  // Seconds from a server's SIGKILL to the next answered push, for each kill and worker.
  const std::vector<double>& repairs() const { return repairs_; }
  // Seconds from a server's SIGTERM to the next answered push, for each drained server and worker.
  const std::vector<double>& exchanges() const { return exchanges_; }
  double longest_push() const {
    std::int64_t longest = 0;
    for (const WorkerBoard& worker : board().workers) {
      for (const KeyBoard& key : worker.keys) longest = std::max(longest, key.longest.load());
    }
    return static_cast<double>(longest) * 1e-9;
  }
  double longest_without_scheduler() const { return without_scheduler_; }

 private:
  KillBoard& board() const { return *job_.board; }
  int joined(int rank) const { return board().workers[static_cast<std::size_t>(rank)].joined; }

  static void end(pid_t process) {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }

  // Whether the process has exited. Throws if it has failed.
  static bool has_ended(pid_t process) {
    int status = 0;
    if (process <= 0 || ::waitpid(process, &status, WNOHANG) != process) return false;
    if (status != 0) throw std::runtime_error("a process has failed");
    return true;
  }

  template <class Condition> void await(const char* what, const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience * (kSanitized ? 5 : 1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error(std::string("in vain: ") + what);
      check_alive();
      std::this_thread::sleep_for(500us);
    }
  }

  // Throws if a process has ended without being killed by this test.
  void check_alive() {
    for (const auto* all : {&servers_, &workers_}) {
      for (const pid_t one : *all) {
        if (!board().over && has_ended(one)) throw std::runtime_error("a process has ended by itself");
      }
    }
    if (has_ended(scheduler_)) throw std::runtime_error("the scheduler has ended by itself");
  }

  // Waits until each worker has begun a push after `time`, to the small key of the given server, and has its
  // answer; with server -1, to the small key of each server. Returns the seconds from `time` to each answer.
  std::vector<double> await_progress(std::int64_t time, int server = -1) {
    std::vector<double> seconds;
    for (WorkerBoard& worker : board().workers) {
      for (int key = 0; key < kKillServers; ++key) {
        if (server >= 0 && key != server) continue;
        const KeyBoard& one = worker.keys[static_cast<std::size_t>(key)];
        await("pushes", [&] { return one.begun_at > time; });
        seconds.push_back(static_cast<double>(one.answered_at - time) * 1e-9);
      }
    }
    return seconds;
  }

  void kill_server(int number) {
    ++counts_.servers;
    pid_t& process = servers_[static_cast<std::size_t>(number)];
    const std::uint64_t version = board().scheduler.version;
    end(std::exchange(process, -1));
    const std::int64_t time = kill_time();
    // The new process starts at a random time, before or after the scheduler notices the old one's death.
    const auto back = time + static_cast<std::int64_t>(random_() % 300) * 1'000'000;
    await("its turn", [&] { return kill_time() >= back; });
    process = start_server(job_, number);
    for (const double one : await_progress(time, number)) repairs_.push_back(one);
    await("the scheduler's notice", [&] { return board().scheduler.version > version; });
  }

  // Replaces a server's process as an upgrade does: SIGTERM, then a new process.
  void drain_server(int number) {
    ++counts_.drained;
    pid_t& process = servers_[static_cast<std::size_t>(number)];
    const std::uint64_t version = board().scheduler.version;
    const std::int64_t time = kill_time();
    const pid_t draining = std::exchange(process, -1);
    ::kill(draining, SIGTERM);
    await("the end of a server that drains", [&] { return has_ended(draining); });
    process = start_server(job_, number);
    for (const double one : await_progress(time, number)) exchanges_.push_back(one);
    await("the scheduler's notice", [&] { return board().scheduler.version > version; });
    await("copies", [this] { return board().scheduler.complete.load(); });
  }

  void kill_worker(int rank) {
    ++counts_.workers;
    pid_t& process = workers_[static_cast<std::size_t>(rank)];
    const int before = joined(rank);
    WorkerBoard& worker = board().workers[static_cast<std::size_t>(rank)];
    // With synchronous rounds the worker dies between two steps: a death within a step would leave the rank's
    // keys in different rounds.
    worker.is_to_die = job_.type == "dist_sync";
    if (worker.is_to_die) ::waitpid(process, nullptr, 0), process = -1;
    end(std::exchange(process, -1));
    worker.is_to_die = false;
    process = start_worker(job_, rank);
    await("the worker's sums", [&] { return joined(rank) > before; });
    await_progress(kill_time());
  }

  void kill_scheduler() {
    ++counts_.schedulers;
    end(std::exchange(scheduler_, -1));
    const std::int64_t time = kill_time();
    scheduler_ = start_scheduler(job_);
    for (const double one : await_progress(time)) without_scheduler_ = std::max(without_scheduler_, one);
  }

  const KeyDirectory directory_;
  const SharedBoard board_;
  KillJob job_;
  std::mt19937_64 random_;
  pid_t scheduler_ = -1;
  std::vector<pid_t> servers_, workers_;
  Counts counts_;
  std::vector<double> repairs_, exchanges_;
  double without_scheduler_ = 0;
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(share * last + 0.5)];
}

void print_times(const char* what, const std::vector<double>& seconds) {
  if (seconds.empty()) return;
  std::printf("  %s: p50 %.0f ms, p99 %.0f ms, max %.0f ms\n", what, percentile(seconds, 0.5) * 1e3,
              percentile(seconds, 0.99) * 1e3, percentile(seconds, 1) * 1e3);
}

void print(const FaultSettings& settings, const std::string& type, const Kills& kills, std::int64_t pushes) {
  const Counts& counts = kills.counts();
  std::printf(
      "%s %s: %d kills, of %d servers, %d workers and %d schedulers, and %d servers drained; %lld pushes "
      "acknowledged, 0 lost, 0 counted twice\n",
      settings.transport.c_str(), type.c_str(), counts.all(), counts.servers, counts.workers,
      counts.schedulers, counts.drained, static_cast<long long>(pushes));
  print_times("from a server's death to the next push", kills.repairs());
  print_times("from a server's SIGTERM to the next push", kills.exchanges());
  std::printf("  at most %.0f ms from a scheduler's death to the next push, %.0f ms for one push\n",
              kills.longest_without_scheduler() * 1e3, kills.longest_push() * 1e3);
  std::fflush(stdout);
}

// Kills `count` processes of a job. Returns whether repairs are fast enough.
bool run_type(const FaultSettings& settings, const std::string& type, long long count) {
  Kills kills(settings, type);
  while (kills.counts().all() < count) {
    kills.kill_one();
    if (kills.counts().all() % 50 == 0)
      std::printf("%s: %d kills so far\n", type.c_str(), kills.counts().all());
    std::fflush(stdout);
  }
  print(settings, type, kills, kills.finish());
  const bool fast = kills.repairs().empty() || percentile(kills.repairs(), 0.99) < kMostRepair;
  return fast || settings.untimed || kSanitized;
}

}  // namespace

int run_kills(const FaultSettings& settings) {
  const long long count = settings.count > 0 ? settings.count : 1000;
  bool fast = true;
  for (const char* type : {"dist_async", "dist_sync"})
    fast = run_type(settings, type, (count + 1) / 2) && fast;
  if (!fast) std::fprintf(stderr, "repairs take too long\n");
  return fast ? 0 : 1;
}

}  // namespace heddle::test
