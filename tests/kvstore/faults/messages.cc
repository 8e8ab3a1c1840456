// Workers push integers and pull sums through fault proxies. Each push counts once: final sums are exact, and
// earlier sums lie between a worker's own pushes and all pushes.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/server.h>
#include <heddle/store_error.h>
#include <heddle/store_scheduler.h>

#include "client/dist_store.h"
#include "faults/fault_proxy.h"
#include "faults/programs.h"
#include "faults/server_process.h"

namespace heddle::test {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 3, kServers = 2;
// Numbers of elements of the keys: four small keys, one that travels in pieces, and one that is split over
// the servers.
constexpr std::int64_t kElements[] = {1, 7, 100, 3000, 20'000, 400'001};
constexpr int kRoundsOfLarge = 16;  // the last two keys, which are large, are pushed once in this many rounds
constexpr int kSmall = 4, kKeys = 6;
constexpr int kInFlight = 4;  // number of rounds that a worker begins before it checks the pulled values

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class Program> struct Running {
  template <class Options>
  explicit Running(Options options) : program(std::move(options)), thread([this] { program.run(); }) {}
  ~Running() {
    program.stop();
    thread.join();
  }
  Program program;
  std::thread thread;
};

struct Job {
  const FaultSettings& settings;
  std::string type, keys;
  long long rounds = 0;
  std::unique_ptr<Running<StoreScheduler>> scheduler{};  // null: workers know the servers' addresses
  std::vector<std::unique_ptr<Running<Server>>> servers{};
  // One proxy for each server, and one for the scheduler if there is one.
  std::vector<std::unique_ptr<FaultProxy>> proxies{};
  std::atomic<std::uint64_t> messages{0};
};

bool is_pushed(int key, long long round) { return key < kSmall || round % kRoundsOfLarge == 0; }
long long pushes_of(int key, long long rounds) { return key < kSmall ? rounds : rounds / kRoundsOfLarge; }
int parts_of(int key) { return key == kKeys - 1 ? kServers : 1; }

kv_detail::ClientOptions client_options(const Job& job, int rank, int workers,
                                        std::chrono::milliseconds timeout) {
  kv_detail::ClientOptions options;
  if (job.scheduler) options.scheduler = job.proxies.back()->address();
  for (const auto& proxy : job.proxies) {
    if (!job.scheduler) options.servers.push_back(proxy->address());
  }
  options.consistency = job.type.substr(5);
  options.rank = rank;
  options.workers = workers;
  options.timeout = timeout;
  options.transport = {.kind = job.settings.transport, .keys = job.keys, .encrypt_loopback = true};
  return options;
}

void check(const NDArray& sum, std::int64_t least, std::int64_t most, const std::string& what) {
  for (const std::int64_t one : sum.to_vector<std::int64_t>()) {
    if (one >= least && one <= most) continue;
    throw Failure(what + ": " + std::to_string(one) + " instead of " + std::to_string(least) + " to " +
                  std::to_string(most));
  }
}

void work(Job& job, int rank) {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  DistStore store(job.type, client_options(job, rank, kWorkers, 40s));
  store.set_optimizer("add");
  std::vector<NDArray> value, out;
  for (int key = 0; key < kKeys; ++key) {
    value.push_back(full({kElements[key]}, rank + 1, DType::i64));
    out.push_back(zeros({kElements[key]}, DType::i64));
    store.init(key, out.back());
  }
  constexpr std::int64_t kARound = kWorkers * (kWorkers + 1) / 2;
  const bool sync = job.type == "dist_sync";
  for (long long round = 1; round <= job.rounds; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      if (!is_pushed(key, round)) continue;
      store.push(key, value[static_cast<std::size_t>(key)]);
      store.pull(key, out[static_cast<std::size_t>(key)]);
      job.messages += static_cast<std::uint64_t>(2 * parts_of(key));
    }
    if (round % kInFlight != 0) continue;
    for (int key = 0; key < kKeys; ++key) {
      const std::int64_t pushes = pushes_of(key, round), all = pushes_of(key, job.rounds);
      if (pushes > 0)
        check(out[static_cast<std::size_t>(key)], sync ? pushes * kARound : pushes * (rank + 1),
              sync ? pushes * kARound : all * kARound,
              "key " + std::to_string(key) + " of round " + std::to_string(round));
    }
  }
  store.barrier();
  for (int key = 0; key < kKeys; ++key) {
    const std::int64_t all = pushes_of(key, job.rounds) * kARound;
    store.pull(key, out[static_cast<std::size_t>(key)]);
    check(out[static_cast<std::size_t>(key)], all, all, "key " + std::to_string(key) + " at the end");
  }
}

void print(const Job& job, const char* how) {
  FaultCounts sum;
  for (const auto& proxy : job.proxies) {
    const FaultCounts one = proxy->counts();
    sum.connections += one.connections, sum.delays += one.delays, sum.losses += one.losses;
    sum.mutes += one.mutes, sum.corruptions += one.corruptions, sum.cuts += one.cuts;
    sum.doubled += one.doubled, sum.replays += one.replays, sum.overtaken += one.overtaken;
  }
  std::printf(
      "%s %s: %llu messages%s, %llu connections; delayed %llu, lost %llu, half-open %llu, corrupted %llu, "
      "cut %llu, doubled %llu, replayed %llu, overtaken %llu\n",
      job.settings.transport.c_str(), job.type.c_str(), static_cast<unsigned long long>(job.messages.load()),
      how, static_cast<unsigned long long>(sum.connections), static_cast<unsigned long long>(sum.delays),
      static_cast<unsigned long long>(sum.losses), static_cast<unsigned long long>(sum.mutes),
      static_cast<unsigned long long>(sum.corruptions), static_cast<unsigned long long>(sum.cuts),
      static_cast<unsigned long long>(sum.doubled), static_cast<unsigned long long>(sum.replays),
      static_cast<unsigned long long>(sum.overtaken));
  if (job.scheduler) {
    const StoreSchedulerStats stats = job.scheduler->program.stats();
    std::printf("  the scheduler's views: version %llu, %llu failovers, %llu parts lost\n",
                static_cast<unsigned long long>(stats.version),
                static_cast<unsigned long long>(stats.failovers),
                static_cast<unsigned long long>(stats.lost));
  }
  std::fflush(stdout);
}

// Runs all workers at once; returns the first error, or null.
std::exception_ptr run_workers(Job& job) {
  std::vector<std::exception_ptr> errors(kWorkers);
  std::atomic<int> left{kWorkers};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(job, rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
      --left;
    });
  }
  for (int tenths = 1; left.load() > 0; ++tenths) {
    std::this_thread::sleep_for(100ms);
    if (tenths % 100 == 0) print(job, " so far");
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) return error;
  }
  return nullptr;
}

void check_counts(const Job& job) {
  std::uint64_t seen = 0, repeated = 0;
  for (const auto& one : job.servers) {
    const ServerStats stats = one->program.stats();
    seen += stats.pushes, repeated += stats.duplicates;
  }
  long long made = 0;
  for (int key = 0; key < kKeys; ++key) made += kWorkers * parts_of(key) * pushes_of(key, job.rounds);
  std::printf("  %lld pushes, of which the servers counted %llu; %llu came again\n", made,
              static_cast<unsigned long long>(seen), static_cast<unsigned long long>(repeated));
  if (static_cast<std::uint64_t>(made) != seen) throw Failure("pushes are lost or doubled");
}

// Checks that a push to unreachable servers gets an error.
void check_outage(Job& job) {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  kv_detail::ClientOptions options = client_options(job, 0, 1, 1500ms);
  options.job = "outage";
  DistStore store(job.type, options);
  store.init(0, zeros({3}, DType::i64));
  NDArray out = zeros({3}, DType::i64);
  for (const auto& proxy : job.proxies) proxy->refuse();
  store.push(0, full({3}, 1, DType::i64));
  store.pull(0, out);
  try {
    out.wait();
  } catch (const StoreError&) {
    return;
  }
  throw Failure("a push to servers that are not there succeeds");
}

// Starts the job's servers, and its scheduler if there is one. All processes connect to each other through
// proxies.
void start_servers(Job& job) {
  const FaultSettings& settings = job.settings;
  const auto proxy = [&settings, &job](std::size_t number) {
    job.proxies.push_back(std::make_unique<FaultProxy>(settings.seed * 10 + number, settings.rare));
    return job.proxies.back()->address();
  };
  std::vector<std::string> addresses;
  for (int number = 0; number < kServers; ++number)
    addresses.push_back(proxy(static_cast<std::size_t>(number)));
  const std::string scheduler = settings.scheduled ? proxy(kServers) : "";
  if (settings.scheduled) {
    job.scheduler = std::make_unique<Running<StoreScheduler>>(StoreSchedulerOptions{
        .transport = settings.transport, .keys = job.keys, .servers = kServers, .encrypt_loopback = true});
    job.proxies.back()->set_target(job.scheduler->program.address());
  }
  for (int number = 0; number < kServers; ++number) {
    const auto i = static_cast<std::size_t>(number);
    job.servers.push_back(std::make_unique<Running<Server>>(ServerOptions{.advertise = addresses[i],
                                                                          .transport = settings.transport,
                                                                          .keys = job.keys,
                                                                          .number = number,
                                                                          .servers = kServers,
                                                                          .scheduler = scheduler,
                                                                          .worker_timeout = 120s,
                                                                          .encrypt_loopback = true}));
    job.proxies[i]->set_target(job.servers[i]->program.address());
  }
}

void run_job(const FaultSettings& settings, const std::string& type, long long messages) {
  const KeyDirectory keys;
  Job job{.settings = settings, .type = type, .keys = keys.path};
  // Messages in kRoundsOfLarge rounds: for each small key a push and a pull per round, for each part of a
  // large key one push and one pull.
  constexpr long long kMessages = kWorkers * (2 * kSmall * kRoundsOfLarge + 2 + 2 * kServers);
  job.rounds = (messages * kRoundsOfLarge / kMessages / kRoundsOfLarge + 1) * kRoundsOfLarge;
  start_servers(job);
  const std::exception_ptr error = run_workers(job);
  print(job, "");
  if (error) std::rethrow_exception(error);
  // No count of pushes is known: after a failover several servers have counted the same push.
  if (job.scheduler) return;
  check_counts(job);
  for (const auto& proxy : job.proxies) proxy->set_rare(0);
  check_outage(job);
}

}  // namespace

int run_messages(const FaultSettings& settings) {
  const long long messages = settings.count > 0 ? settings.count : 1'000'000;
  for (const char* type : {"dist_sync", "dist_async"}) run_job(settings, type, messages / 2);
  return 0;
}

}  // namespace heddle::test
