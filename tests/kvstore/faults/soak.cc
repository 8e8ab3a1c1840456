// Workers that come, leave and are killed while others train: the server's memory does not grow.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ops.h>

#include "arguments.h"
#include "client/dist_store.h"
#include "faults/programs.h"
#include "faults/server_process.h"

namespace heddle::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 3;
constexpr double kWarm = 0.5;  // share of the run, at its beginning, in which memory may grow
// Bytes by which a line fitted to the measurements of the rest of the run may rise.
constexpr double kMostGrowth = 4 << 20;
// Time between two kills of workers. A measurement of the server's memory follows each kill.
constexpr std::chrono::milliseconds kBetween{kSanitized ? 600 : 150};

// By how much a line fitted to the points (x, y) rises from the first point to the last.
double growth(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [at, value] : points) x += at, y += value, xx += at * at, xy += at * value;
  const auto n = static_cast<double>(points.size());
  const double slope = (n * xy - x * y) / std::max(n * xx - x * x, 1e-9);
  return slope * (points.back().first - points.front().first);
}

class Workers {
 public:
  Workers(std::string program, std::string address, std::uint64_t seed)
      : program_(std::move(program)), address_(std::move(address)), random_(seed) {}
  ~Workers() {
    for (const pid_t one : running_) end(one);
  }
  // Starts a worker process. The first ranks form one job that lasts; each process of the last rank is a job
  // of its own.
  void start(int rank) {
    const bool lasts = rank + 1 < kWorkers;
    const std::string job = lasts ? "lasts" : "comes-" + std::to_string(started_);
    ++started_;
    const std::vector<std::string> words = {program_,
                                            "worker",
                                            address_,
                                            job,
                                            std::to_string(lasts ? rank : 0),
                                            std::to_string(lasts ? kWorkers - 1 : 1),
                                            std::to_string(random_())};
    const pid_t process = ::fork();
    if (process < 0) throw std::runtime_error("there is no process to be had");
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::vector<char*> argv;
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(program_.c_str(), argv.data());
      _exit(127);
    }
    running_[static_cast<std::size_t>(rank)] = process;
  }
  void start_all() {
    for (int rank = 0; rank < kWorkers; ++rank) start(rank);
  }
  // Kills a random worker, and restarts all workers that have ended.
  void replace() {
    const auto chosen = static_cast<int>(random_() % kWorkers);
    for (int rank = 0; rank < kWorkers; ++rank) {
      pid_t& process = running_[static_cast<std::size_t>(rank)];
      int status = 0;
      const bool left = ::waitpid(process, &status, WNOHANG) == process;
      if (left && status != 0) throw std::runtime_error("a worker has failed");
      if (!left && rank != chosen) continue;
      if (!left) end(process);
      start(rank);
    }
  }
  int started() const { return started_; }

 private:
  static void end(pid_t process) {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  const std::string program_, address_;
  std::mt19937_64 random_;
  std::vector<pid_t> running_ = std::vector<pid_t>(kWorkers, -1);
  int started_ = 0;
};

}  // namespace

int run_worker(const std::string& address, const std::string& job, int rank, int workers,
               std::uint64_t seed) {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  std::mt19937_64 random(seed);
  DistStore store(
      "dist_async",
      {.servers = {address}, .job = job, .consistency = "async", .rank = rank, .workers = workers});
  std::vector<NDArray> out;
  for (const std::int64_t elements : {1, 1000, 300'000}) {
    out.push_back(zeros({elements}));
    store.init(out.size() - 1, out.back());
  }
  const auto end = Clock::now() + std::chrono::milliseconds(200 + random() % 3000);
  while (Clock::now() < end) {
    for (std::size_t key = 0; key < out.size(); ++key) {
      store.push(key, ones(out[key].shape()));
      store.pull(key, out[key]);
    }
    for (const NDArray& one : out) one.wait();
  }
  return 0;
}

int run_soak(const FaultSettings& settings, const std::string& program) {
  const double seconds = settings.seconds > 0 ? settings.seconds : 1800;
  ServerProcess server({.transport = settings.transport, .worker_timeout = 5s});
  const auto begun = Clock::now();
  std::vector<std::pair<double, double>> points;
  double warm_peak = 0;
  std::size_t most_descriptors = 0;
  int started = 0;
  {
    Workers workers(program, server.address(), settings.seed);
    workers.start_all();
    for (double now = 0; now < seconds;) {
      std::this_thread::sleep_for(kBetween);
      workers.replace();
      now = std::chrono::duration<double>(Clock::now() - begun).count();
      const auto resident = static_cast<double>(server.resident_bytes());
      most_descriptors = std::max(most_descriptors, server.descriptors());
      if (now < kWarm * seconds) warm_peak = std::max(warm_peak, resident);
      if (now >= kWarm * seconds) points.emplace_back(now, resident);
      std::printf("\r%.0f of %.0f s, %d workers started, memory %.1f MB", now, seconds, workers.started(),
                  resident / 1e6);
      std::fflush(stdout);
    }
    started = workers.started();
  }
  const double grown = growth(points);
  const ServerCounts counts = server.stop();
  std::printf(
      "\r%s: %.0f s, %d workers started, %llu joined, %llu pushes; memory %.1f MB at most while warming up, "
      "grown by %.1f MB "
      "since; %zu descriptors at most\n",
      settings.transport.c_str(), seconds, started, static_cast<unsigned long long>(counts.joined),
      static_cast<unsigned long long>(counts.pushes), warm_peak / 1e6, grown / 1e6, most_descriptors);
  const bool flat = grown <= kMostGrowth || kSanitized;
  if (!flat) std::fprintf(stderr, "the server's memory grows\n");
  return flat ? 0 : 1;
}

}  // namespace heddle::test
