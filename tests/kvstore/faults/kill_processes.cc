#include "faults/kill_processes.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/server.h>
#include <heddle/store_scheduler.h>

#include "client/dist_store.h"
#include "client/placement.h"

namespace heddle::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSmall = 100, kLarger = 20'000, kLarge = 200'000;
constexpr int kRoundsOfLarge = 8;  // the large key is pushed once in this many steps

Server* serving = nullptr;

std::int64_t elements(int key) {
  return key < kKillServers ? kSmall : key < 2 * kKillServers ? kLarger : kLarge;
}

void look_at(const StoreScheduler& scheduler, SchedulerBoard& board) {
  const StoreSchedulerStats stats = scheduler.stats();
  bool complete = stats.begun && stats.servers_here == kKillServers;
  for (int shard = 0; shard < static_cast<int>(stats.shards.size()); ++shard) {
    const ShardAssignment& place = stats.shards[static_cast<std::size_t>(shard)];
    complete = complete && place.primary == shard && place.backup >= 0 && place.synced;
  }
  board.complete = complete;
  board.lost = stats.lost;
  // Stored last: a reader that sees this version also sees the other members.
  board.version = stats.version;
}

// Each rank adds 1 to the elements that belong to it, so the sums show how many pushes of each rank count.
class CountingWorker {
 public:
  CountingWorker(const KillJob& job, int rank)
      : job_(job),
        rank_(rank),
        store_(job.type, {.servers = {},
                          .scheduler = job.scheduler,
                          .job = "kills",
                          .consistency = job.type.substr(5),
                          .rank = rank,
                          .workers = kKillWorkers,
                          .transport = {.kind = job.transport}}) {
    store_.set_optimizer("add");
    for (int key = 0; key < kKillKeys; ++key) {
      std::vector<std::int64_t> mine(static_cast<std::size_t>(elements(key)));
      for (std::size_t i = 0; i < mine.size(); ++i)
        mine[i] = i % kKillWorkers == static_cast<std::size_t>(rank);
      value_.push_back(array(mine, {elements(key)}));
      out_.push_back(zeros({elements(key)}, DType::i64));
      store_.init(kill_key(key), out_.back());
    }
  }

  void run() {
    for (int key = 0; key < kKillKeys; ++key) find_sum(key);
    ++job_.board->workers[static_cast<std::size_t>(rank_)].joined;
    while (!job_.board->over) {
      if (job_.board->workers[static_cast<std::size_t>(rank_)].is_to_die) std::raise(SIGKILL);
      push_all();
    }
    store_.barrier();
    for (int key = 0; key < kKillKeys; ++key) check_end(key);
  }

 private:
  KeyBoard& board(int rank, int key) const {
    return job_.board->workers[static_cast<std::size_t>(rank)].keys[static_cast<std::size_t>(key)];
  }

  // The number of a rank's pushes that count in the last pulled value. Fails unless all of the rank's
  // elements agree.
  std::int64_t count_of(int rank, int key) const {
    const auto all = out_[static_cast<std::size_t>(key)].to_vector<std::int64_t>();
    const std::int64_t count = all[static_cast<std::size_t>(rank)];
    for (std::size_t i = static_cast<std::size_t>(rank); i < all.size(); i += kKillWorkers) {
      if (all[i] != count) fail(key, "has " + std::to_string(count) + " and " + std::to_string(all[i]));
    }
    return count;
  }

  [[noreturn]] void fail(int key, const std::string& what) const {
    throw std::runtime_error(job_.type + ", worker " + std::to_string(rank_) + ", key " +
                             std::to_string(key) + " " + what);
  }

  // Checks the number of this rank's pushes that count when the rank's process starts. Only a push that the
  // rank's former process has started and not seen acknowledged may count or not.
  void find_sum(int key) {
    store_.pull(kill_key(key), out_[static_cast<std::size_t>(key)]);
    KeyBoard& mine = board(rank_, key);
    const std::int64_t count = count_of(rank_, key);
    if (count < mine.acknowledged || count > mine.started)
      fail(key, "has counted " + std::to_string(count) + " pushes at the start, of " +
                    std::to_string(mine.acknowledged) + " acknowledged and " + std::to_string(mine.started) +
                    " made");
    mine.started = mine.acknowledged = count;
  }

  // Whether the next step pushes the large key. Depends only on pushes that count, so that a restarted rank
  // continues as before and all ranks push the large key in the same steps.
  bool is_turn_of_large() const {
    return board(rank_, kKillKeys - 1).acknowledged < (board(rank_, 0).acknowledged + 1) / kRoundsOfLarge;
  }

  void push_all() {
    const int keys = is_turn_of_large() ? kKillKeys : kKillKeys - 1;
    std::vector<std::int64_t> begun;
    for (int key = 0; key < keys; ++key) {
      const auto i = static_cast<std::size_t>(key);
      begun.push_back(kill_time());
      ++board(rank_, key).started;
      store_.push(kill_key(key), value_[i]);
      store_.pull(kill_key(key), out_[i]);
    }
    for (int key = 0; key < keys; ++key) {
      out_[static_cast<std::size_t>(key)].wait();
      KeyBoard& mine = board(rank_, key);
      const std::int64_t made = ++mine.acknowledged, count = count_of(rank_, key);
      if (count != made)
        fail(key, "has counted " + std::to_string(count) + " pushes of " + std::to_string(made));
      const std::int64_t now = kill_time(), begin = begun[static_cast<std::size_t>(key)];
      mine.answered_at = now;
      mine.begun_at = begin;
      if (now - begin > mine.longest) mine.longest = now - begin;
    }
  }

  void check_end(int key) {
    store_.pull(kill_key(key), out_[static_cast<std::size_t>(key)]);
    for (int rank = 0; rank < kKillWorkers; ++rank) {
      const std::int64_t count = count_of(rank, key), made = board(rank, key).acknowledged;
      if (count != made)
        fail(key, "has counted " + std::to_string(count) + " of " + std::to_string(made) +
                      " pushes of worker " + std::to_string(rank) + " at the end");
    }
  }

  const KillJob& job_;
  const int rank_;
  DistStore store_;
  std::vector<NDArray> value_, out_;
};

}  // namespace

std::int64_t kill_key(int key) {
  if (key == kKillKeys - 1) return 1'000'000;
  const int server = key % kKillServers, skip = key / kKillServers;
  int found = 0;
  for (std::int64_t candidate = 0;; ++candidate) {
    if (kv_detail::hash_server(std::to_string(candidate), kKillServers) == server && found++ == skip)
      return candidate;
  }
}

std::int64_t kill_time() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

pid_t start_process(const std::string& name, const std::function<void()>& run) {
  const pid_t process = ::fork();
  if (process < 0) throw std::runtime_error("there is no process to be had");
  if (process > 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    run();
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    _exit(1);
  }
}

pid_t start_scheduler(KillJob& job) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("there is no pipe to be had");
  job.board->scheduler.version = 0;
  job.board->scheduler.complete = false;
  const std::string listen = job.scheduler.empty() ? "127.0.0.1:0" : job.scheduler;
  const pid_t process = start_process("scheduler", [&] {
    StoreScheduler scheduler(
        {.listen = listen, .transport = job.transport, .servers = kKillServers, .state_file = job.state});
    const std::string line = scheduler.address() + "\n";
    if (::write(pipe[1], line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(1);
    std::thread looking([&] {
      while (true) {
        look_at(scheduler, job.board->scheduler);
        std::this_thread::sleep_for(2ms);
      }
    });
    scheduler.run();
    looking.detach();
  });
  ::close(pipe[1]);
  std::string address;
  for (char one = 0; ::read(pipe[0], &one, 1) == 1 && one != '\n';) address += one;
  ::close(pipe[0]);
  if (address.empty()) throw std::runtime_error("the scheduler does not begin");
  job.scheduler = address;
  return process;
}

pid_t start_server(const KillJob& job, int number) {
  return start_process("server " + std::to_string(number), [&] {
    Server server(
        {.transport = job.transport, .number = number, .servers = kKillServers, .scheduler = job.scheduler});
    serving = &server;
    struct sigaction action {};
    action.sa_handler = [](int) { serving->drain(); };
    ::sigaction(SIGTERM, &action, nullptr);
    server.run();
  });
}

pid_t start_worker(const KillJob& job, int rank) {
  return start_process("worker " + std::to_string(rank), [&] {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    CountingWorker(job, rank).run();
  });
}

}  // namespace heddle::test
